package report

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// Suspension is the answer of `holdfast suspend` and `holdfast resume` about one Kustomization.
type Suspension struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Suspended is what spec.suspend says now, and Changed whether it said something else before.
	Suspended bool `json:"suspended"`
	Changed   bool `json:"changed"`
	// Parent is the Kustomization that applies this one out of its source, as namespace/name.
	Parent string `json:"parent,omitempty"`
	// ParentSets is true when what the parent applies has spec.suspend itself, so that it undoes what others write there.
	ParentSets bool `json:"parentSets,omitempty"`
}

// SuspensionOf reads a Kustomization as it was before the write, which takes the field away from whom it belonged to.
func SuspensionOf(ks *v1.Kustomization, suspend bool) Suspension {
	s := Suspension{Namespace: ks.Namespace, Name: ks.Name, Suspended: suspend, Changed: suspend != ks.Spec.Suspend}
	if name := ks.Labels[v1.OwnerNameLabel]; name != "" {
		s.Parent = ks.Labels[v1.OwnerNamespaceLabel] + "/" + name
		s.ParentSets = rival.Sets(ks.ManagedFields, v1.ApplyManager, "suspend")
	}
	return s
}

// WriteText writes what is so now, and what becomes of it when the parent applies again.
func (s Suspension) WriteText(w io.Writer, _ TextOptions) error {
	var b strings.Builder
	key := s.Namespace + "/" + s.Name
	switch {
	case s.Suspended && s.Changed:
		fmt.Fprintf(&b, "%s is suspended: nothing of it is applied or pruned until: holdfast resume %s -n %s\n", key, s.Name, s.Namespace)
	case s.Suspended:
		fmt.Fprintf(&b, "%s was suspended already.\n", key)
	case s.Changed:
		fmt.Fprintf(&b, "%s is resumed: the revision of its source is taken up now.\n", key)
	default:
		fmt.Fprintf(&b, "%s is not suspended: nothing to resume.\n", key)
	}
	switch {
	case s.ParentSets && s.Changed:
		fmt.Fprintf(&b, "Its parent, Kustomization %s, sets spec.suspend itself and undoes this at its next apply: change it in Git, or suspend the parent.\n", s.Parent)
	case s.Parent != "" && s.Suspended && !s.Changed:
		fmt.Fprintf(&b, "Its parent, Kustomization %s, applies it out of Git, and undoes this if spec.suspend is set there.\n", s.Parent)
	case s.Parent != "" && s.Suspended:
		fmt.Fprintf(&b, "Its parent, Kustomization %s, applies it out of Git, where spec.suspend is not set: it stays suspended, "+
			"other changes of its spec still arrive, and if it leaves Git it is deleted and its objects stay.\n", s.Parent)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Suspensions are the answers about several Kustomizations.
type Suspensions struct {
	Kustomizations []Suspension `json:"kustomizations"`
	// Failed says which could not be written, and why.
	Failed []string `json:"failed,omitempty"`
	// Where is where was looked.
	Where Where `json:"-"`
	// Sought is what spec.suspend of the sought ones was.
	Sought bool `json:"-"`
}

// Err is an error if any could not be written.
func (s Suspensions) Err() error {
	if len(s.Failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d not written: %s", len(s.Failed), strings.Join(s.Failed, "; "))
}

// WriteText writes each of them.
func (s Suspensions) WriteText(w io.Writer, o TextOptions) error {
	if len(s.Kustomizations)+len(s.Failed) == 0 {
		text := "Nothing to suspend in namespace %s: no Kustomization is there, or all are suspended.\n"
		if s.Sought {
			text = "No Kustomization is suspended in namespace %s.\n"
		}
		_, err := fmt.Fprintf(w, text, s.Where)
		return err
	}
	for _, k := range s.Kustomizations {
		if err := k.WriteText(w, o); err != nil {
			return err
		}
	}
	return nil
}
