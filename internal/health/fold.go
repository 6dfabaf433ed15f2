package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Checked is an object whose health is waited for.
type Checked struct {
	// ID of the object.
	ID object.ID
	// Verdict about it.
	Verdict Verdict
}

// Overall is the health of a revision.
type Overall struct {
	// Status is Current when all objects are, Failed when the wait can end early, else InProgress.
	Status Status
	// Waiting are the objects that are not Current, sorted, those that failed included.
	Waiting []Checked
	// Stalled are those of them that failed.
	Stalled []Checked
}

// Fold returns the health of a revision from those of its objects. With failFast one failed object fails the revision;
// without it, only when no object can make progress any more, since a failed one never becomes current by waiting.
// No objects at all are healthy.
func Fold(checked []Checked, failFast bool) Overall {
	overall := Overall{Status: Current}
	for _, c := range checked {
		if c.Verdict.Status != Current {
			overall.Waiting = append(overall.Waiting, c)
		}
		if c.Verdict.Status == Failed {
			overall.Stalled = append(overall.Stalled, c)
		}
	}
	byID := func(a, b Checked) int { return object.Compare(a.ID, b.ID) }
	slices.SortStableFunc(overall.Waiting, byID)
	slices.SortStableFunc(overall.Stalled, byID)
	switch stalled, waiting := len(overall.Stalled), len(overall.Waiting); {
	case waiting == 0:
	case stalled == waiting, failFast && stalled > 0:
		overall.Status = Failed
	default:
		overall.Status = InProgress
	}
	return overall
}

// TimeoutText is what Flux says when the wait timed out. It names every object that is not current.
func (o Overall) TimeoutText() string { return "timeout waiting for: " + list(o.Waiting) }

// StalledText is what Flux says when the wait ended before its timeout. It names the objects that failed.
func (o Overall) StalledText() string {
	return "failed early due to stalled resources: " + list(o.Stalled)
}

// maxNamed bounds a list of objects in a message: events are limited in size, and nobody reads sixty names.
const maxNamed = 10

// list is the form in which Flux lists objects, in a fixed order and cut to maxNamed.
func list(checked []Checked) string {
	var items []string
	for i, c := range checked {
		if i == maxNamed {
			items = append(items, fmt.Sprintf("and %d more", len(checked)-maxNamed))
			break
		}
		status := c.Verdict.Status
		if status == "" {
			status = Unknown
		}
		item := fmt.Sprintf("%s status: '%s'", c.ID, status)
		if c.Verdict.Error != "" {
			item += ": " + c.Verdict.Error
		}
		items = append(items, item)
	}
	return "[" + strings.Join(items, ", ") + "]"
}
