package report

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// History is the answer of `holdfast history`.
type History struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Rollouts, the newest first.
	Rollouts []Rollout `json:"rollouts"`
	// Skipped is the revision that the source wants and that is not applied, and Pin what a person chose.
	Skipped *v1.SkippedRevision `json:"skipped,omitempty"`
	Pin     *v1.Pin             `json:"pin,omitempty"`
}

// Rollout is one rollout.
type Rollout struct {
	v1.RolloutRecord
	// Took is how long it took until its result was known, or so far, in seconds.
	Took float64 `json:"took"`
	// Stored is true when it can be brought back.
	Stored bool `json:"stored"`
	// Runs is true for what runs now.
	Runs bool `json:"runs"`
}

// HistoryOf reads the history of a Kustomization.
func HistoryOf(ks *v1.Kustomization, now time.Time) History {
	h := History{Namespace: ks.Namespace, Name: ks.Name, Rollouts: []Rollout{}}
	r := ks.Status.Rollout
	if r == nil {
		return h
	}
	h.Skipped, h.Pin = r.Skipped, r.Pin
	for i, record := range r.History {
		h.Rollouts = append(h.Rollouts, Rollout{
			RolloutRecord: record, Took: plan.Took(record, now).Seconds(), Stored: plan.IsStored(*r, record.Digest),
			Runs: i == 0 && r.Running != nil && r.Running.Digest == record.Digest,
		})
	}
	return h
}

// WriteText writes a line for each rollout.
func (h History) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	if len(h.Rollouts) == 0 {
		_, err := fmt.Fprintf(w, "%s/%s has no rollout yet.\n", h.Namespace, h.Name)
		return err
	}
	o.Namespaces = false
	t := newTable(&b, o, "#", "REVISION", "RESULT", "STARTED", "TOOK", "TRIGGER", "NOTE")
	for _, r := range h.Rollouts {
		t.row("", strconv.FormatInt(r.Number, 10), o.revision(r.Revision), string(r.Result), started(r.Started),
			duration.HumanDuration(time.Duration(r.Took*float64(time.Second))), r.Trigger, orDash(r.note(o)))
	}
	t.end()
	switch {
	case h.Pin != nil:
		fmt.Fprintf(&b, "Pinned to %s. Git's revision is taken again by: holdfast release %s -n %s\n", o.revision(h.Pin.Revision), h.Name, h.Namespace)
	case h.Skipped != nil:
		fmt.Fprintf(&b, "%s is skipped until it renders something else, or: holdfast retry %s -n %s\n", o.revision(h.Skipped.Revision), h.Name, h.Namespace)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func started(t metav1.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func (r Rollout) note(o TextOptions) string {
	var parts []string
	if r.Note != "" {
		parts = append(parts, o.why(r.Note))
	}
	if r.Runs {
		parts = append(parts, "runs now")
	}
	if r.Stored {
		parts = append(parts, "stored")
	}
	return strings.Join(parts, "; ")
}

// FindRevision finds what a person means by the number of a rollout, a revision, a commit or a digest, or the beginning of one of
// these. It has to be one thing.
func FindRevision(ks *v1.Kustomization, name string) (v1.RevisionDigest, error) {
	r := ks.Status.Rollout
	if r == nil {
		return v1.RevisionDigest{}, errors.New("it has no rollout yet")
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && len(name) < 7 {
		for _, record := range r.History {
			if record.Number == n {
				return v1.RevisionDigest{Revision: record.Revision, Digest: record.Digest}, nil
			}
		}
	}
	found := map[string]v1.RevisionDigest{}
	for _, d := range known(*r) {
		if matches(d, name) {
			found[d.Digest] = d
		}
	}
	switch len(found) {
	case 1:
		for _, d := range found {
			return d, nil
		}
	case 0:
		return v1.RevisionDigest{}, fmt.Errorf("no revision %s: see `holdfast history %s -n %s`", name, ks.Name, ks.Namespace)
	}
	return v1.RevisionDigest{}, fmt.Errorf("%s is more than one revision: give more of it", name)
}

// known are the revisions that status names.
func known(r v1.RolloutStatus) []v1.RevisionDigest {
	var list []v1.RevisionDigest
	for _, d := range r.Stored {
		list = append(list, d.RevisionDigest)
	}
	for _, d := range []*v1.RevisionDigest{r.Running, r.Wanted, r.LastHealthy} {
		if d != nil {
			list = append(list, *d)
		}
	}
	for _, record := range r.History {
		list = append(list, v1.RevisionDigest{Revision: record.Revision, Digest: record.Digest})
	}
	return list
}

// matches tells whether a name is a revision, or the beginning of its commit or digest.
func matches(d v1.RevisionDigest, name string) bool {
	if name == "" {
		return false
	}
	commit := d.Revision[strings.LastIndex(d.Revision, ":")+1:]
	return d.Revision == name || Short(d.Revision) == name || strings.HasPrefix(commit, name) ||
		strings.HasPrefix(d.Digest, name) || strings.HasPrefix(strings.TrimPrefix(d.Digest, "sha256:"), name)
}
