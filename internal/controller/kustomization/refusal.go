package kustomization

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// The refusals that an object which is kept may cause, by what the API server and common webhooks say. There is no code for
// them: a used-up quota is Forbidden, a taken port Invalid. The texts only lead to a hint.
var (
	quotaText = regexp.MustCompile(`exceeded quota: `)
	takenText = regexp.MustCompile(`already (allocated|defined|in use|taken|claimed|assigned)`)
)

// withKept adds to the error of an apply the kept objects that may cause it, and the way out. A used-up quota may be by whatever is
// kept in the namespace; a port, address or host that is taken, by an object of the same kind anywhere.
func withKept(err error, retain []plan.Retention) error {
	found := object.Set{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		subject := strings.Split(strings.SplitN(line, " ", 2)[0], "/") // Kind/namespace/name, or Kind/name
		for _, r := range retain {
			if !givesWay(r.Reason) {
				continue
			}
			sameNamespace := len(subject) == 3 && subject[1] == r.ID.Namespace
			if (quotaText.MatchString(line) && sameNamespace) || (takenText.MatchString(line) && subject[0] == r.ID.Kind) {
				found[r.ID] = struct{}{}
			}
		}
	}
	if len(found) == 0 {
		return err
	}
	return fmt.Errorf("%w\nkept from pruning, and may be the cause: %s", err, named(slices.SortedFunc(maps.Keys(found), object.Compare)))
}

// givesWay tells whether the annotation for it lets go of an object that is kept for the reason.
func givesWay(reason v1.RetentionReason) bool {
	switch reason {
	case v1.RetainedAwaitingHealth, v1.RetainedInUse, v1.RetainedRevisionHistory:
		return true
	default:
		return false
	}
}

// maxKeptNames bounds the kept objects that a message names.
const maxKeptNames = 3

// named lists kept objects, with the way out for what can't wait.
func named(ids []object.ID) string {
	var names []string
	for _, id := range ids[:min(len(ids), maxKeptNames)] {
		names = append(names, id.String())
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - maxKeptNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s (to let one go now, annotate it with %s: %s)", text, v1.AnnotationPrune, v1.PruneImmediate)
}
