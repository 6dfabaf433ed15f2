package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Verdict is what a commit came to in one Kustomization. It is an Outcome or one of the following.
type Verdict string

// The verdicts that are no outcome of an attempt.
const (
	// VerdictPending: it is not decided yet.
	VerdictPending Verdict = "Pending"
	// VerdictPaused: a person stopped it, so that it takes up nothing.
	VerdictPaused Verdict = "Paused"
	// VerdictNotTried: what it depends on failed.
	VerdictNotTried Verdict = "NotTried"
)

// Contains tells whether a revision has the commit that is waited for: it is that one, or a later one that is known to contain it.
type Contains func(revision string) bool

// WaitLook is a look at the Kustomizations of `holdfast wait`.
type WaitLook struct {
	// Commit that is waited for.
	Commit         string              `json:"commit"`
	Kustomizations []WaitKustomization `json:"kustomizations"`
}

// WaitKustomization is one of them.
type WaitKustomization struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Verdict   Verdict `json:"verdict"`
	State     State   `json:"state"`
	// Revision that answers for the commit: it, or one that contains it. Empty before one was tried.
	Revision string `json:"revision,omitempty"`
	// Why says in one line what is in the way.
	Why string `json:"why,omitempty"`
}

// WaitLookOf judges each Kustomization. all are those that may be depended on.
func WaitLookOf(commit string, followers, all []v1.Kustomization, contains Contains) WaitLook {
	w := WaitLook{Commit: commit, Kustomizations: []WaitKustomization{}}
	failed, following := map[string]bool{}, map[string]bool{}
	for i := range followers {
		following[keyOf(&followers[i])] = true
	}
	for i := range all {
		// The last attempt of one that is waited for may be one at an older commit.
		if key := keyOf(&all[i]); !following[key] || contains(all[i].Status.LastAttemptedRevision) {
			o := OutcomeOf(&all[i])
			failed[key] = o == OutcomeFailed || o == OutcomeRolledBack
		}
	}
	for i := range followers {
		w.Kustomizations = append(w.Kustomizations, waitOf(&followers[i], contains))
	}
	// A failure reaches those that depend on it, and those that depend on these.
	for range w.Kustomizations {
		for i, k := range w.Kustomizations {
			if root := failedDependency(&followers[i], failed); k.Verdict == VerdictPending && root != "" {
				w.Kustomizations[i].Verdict, w.Kustomizations[i].Why = VerdictNotTried, "waits for "+root
				failed[k.Namespace+"/"+k.Name] = true
			}
		}
	}
	return w
}

func keyOf(ks *v1.Kustomization) string { return ks.Namespace + "/" + ks.Name }

// failedDependency is a dependency that failed and that a Kustomization waits for.
func failedDependency(ks *v1.Kustomization, failed map[string]bool) string {
	if ready := readyOf(ks); ready == nil || ready.Reason != fluxmeta.DependencyNotReadyReason {
		return ""
	}
	for _, key := range dependencies(ks) {
		if failed[key] {
			return key
		}
	}
	return ""
}

// waitOf judges one Kustomization by itself.
func waitOf(ks *v1.Kustomization, contains Contains) WaitKustomization {
	k := WaitKustomization{Namespace: ks.Namespace, Name: ks.Name, State: stateOf(ks), Verdict: VerdictPending}
	k.Why = whyOf(ks, k.State)
	attempted := ks.Status.LastAttemptedRevision
	if contains(attempted) {
		k.Revision = attempted
	}
	switch outcome := OutcomeOf(ks); {
	case k.State == Paused, k.State == Deleting:
		k.Verdict = VerdictPaused
	case k.Revision != "" && outcome != "":
		k.Verdict = Verdict(outcome)
	}
	return k
}

// Done tells whether nothing is pending.
func (w WaitLook) Done() bool { return w.Count(VerdictPending) == 0 }

// Count is how many have a verdict.
func (w WaitLook) Count(verdict Verdict) int {
	n := 0
	for _, k := range w.Kustomizations {
		if k.Verdict == verdict {
			n++
		}
	}
	return n
}

// Changed are those that are not as they were at the last look, which is remembered in told.
func (w WaitLook) Changed(told map[string]string) []WaitKustomization {
	var changed []WaitKustomization
	for _, k := range w.Kustomizations {
		key := k.Namespace + "/" + k.Name
		if text := k.text(); told[key] != text {
			told[key] = text
			changed = append(changed, k)
		}
	}
	return changed
}

// text is what a line of progress says.
func (k WaitKustomization) text() string {
	var line string
	switch k.Verdict {
	case VerdictPending:
		line = k.State.lower()
		if k.Revision == "" {
			line = "not tried yet; " + line
		}
	case VerdictPaused:
		line = k.State.lower() + ": takes up nothing, and is not waited for"
		return line
	case VerdictNotTried:
		line = "not tried"
	default:
		line = string(k.Verdict) + " with " + Short(k.Revision)
	}
	if k.Why != "" {
		line += ": " + cut(Short(k.Why), whyWidth)
	}
	return line
}

// WriteText writes a line of progress.
func (k WaitKustomization) WriteText(w io.Writer, o TextOptions) error {
	_, err := fmt.Fprintf(w, "%s  %s/%s  %s\n", o.Now.UTC().Format(time.TimeOnly+"Z"), k.Namespace, k.Name, k.text())
	return err
}

// WriteText writes the end of the wait in a line.
func (w WaitLook) WriteText(out io.Writer, _ TextOptions) error {
	counts := map[Verdict]int{}
	for _, k := range w.Kustomizations {
		counts[k.Verdict]++
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[v], State(v).lower()))
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", w.Commit, strings.Join(parts, ", "))
	return err
}
