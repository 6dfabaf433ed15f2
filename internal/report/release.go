package report

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// Release is the answer of `holdfast release`: the objects that a person may leave on the cluster for good.
type Release struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Digest over exactly these objects; empty when there are none.
	Digest string `json:"digest,omitempty"`
	// Objects are those that left the source while pruning was off.
	Objects []v1.RetainedObject `json:"objects"`
	// Unlisted is the number of those that status counts and does not list.
	Unlisted int32 `json:"unlisted,omitempty"`
	// Released is true when these very objects are let go of, and the controller has not acted on it yet.
	Released bool `json:"released"`
}

// ReleaseOf reads what may be let go of. The digest is computed over the objects that are shown, as the controller does.
func ReleaseOf(ks *v1.Kustomization) Release {
	a := Release{Namespace: ks.Namespace, Name: ks.Name, Objects: []v1.RetainedObject{}}
	r := ks.Status.Rollout
	if r == nil {
		return a
	}
	a.Objects = append(a.Objects, plan.Releasable(r.Retained)...)
	a.Digest = plan.ReleaseDigest(r.Retained)
	if r.Releasable != nil {
		a.Unlisted = max(0, r.Releasable.Count-int32(len(a.Objects))) //nolint:gosec // status lists at most 500
	}
	a.Released = a.Digest != "" && ks.GetAnnotations()[v1.AnnotationReleaseKept] == a.Digest
	return a
}

// WriteText writes the set, and how to let go of exactly this.
func (a Release) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	key := a.Namespace + "/" + a.Name
	if len(a.Objects) == 0 {
		_, err := fmt.Fprintf(w, "%s keeps nothing that left the source while spec.prune was false.\n", key)
		return err
	}
	fmt.Fprintf(&b, "%s keeps %s that left the source while spec.prune was false.\n", key, count(len(a.Objects)+int(a.Unlisted), "object"))
	o.Namespaces = false
	t := newTable(&b, o, "OBJECT", "SINCE")
	for _, object := range a.Objects {
		t.row("", nameOf(object.ID), age(object.Since, o.Now))
	}
	t.end()
	if a.Unlisted > 0 {
		fmt.Fprintf(&b, "%d more are asked about afterwards.\n", a.Unlisted)
	}
	if a.Released {
		b.WriteString("These are released: the controller lets go of them, and they stay on the cluster.\n")
	} else {
		fmt.Fprintf(&b, "To let go of exactly these, and leave them on the cluster for good: %s\n", a.Command())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Command is what lets go of exactly these objects.
func (a Release) Command() string {
	return fmt.Sprintf("holdfast release %s -n %s --expect %s", a.Name, a.Namespace, a.Digest)
}
