package report

import (
	"fmt"
	"io"
	"strings"
)

// Uninstall is the answer of `holdfast uninstall`.
type Uninstall struct {
	// Namespace of the controller.
	Namespace string `json:"namespace"`
	// Deletes are the objects of the installation, in the order in which they go, as Kind/namespace/name.
	Deletes []string `json:"deletes"`
	// Left are objects with a name of the installation that it does not delete, since they do not carry its labels.
	Left []string `json:"left,omitempty"`
	// Kustomizations is how many stay, with everything that they deployed.
	Kustomizations int `json:"kustomizations"`
	// Deleting are those of them that wait for the controller to delete their objects, as namespace/name.
	Deleting []string `json:"deleting,omitempty"`
	// InGit is the Kustomization that applies the installation out of its source, as namespace/name.
	InGit string `json:"inGit,omitempty"`
	// Done is true once the objects are deleted.
	Done bool `json:"done"`
}

// WriteText says what goes, what stays, and what to know before.
func (u Uninstall) WriteText(w io.Writer, _ TextOptions) error {
	var b strings.Builder
	switch {
	case len(u.Deletes) == 0:
		fmt.Fprintf(&b, "holdfast is not installed in namespace %s.\n", u.Namespace)
	case u.Done:
		paragraph(&b, "DELETED", spacedAll(u.Deletes)...)
	default:
		paragraph(&b, "DELETES", spacedAll(u.Deletes)...)
	}
	paragraph(&b, "KEEPS", "the CustomResourceDefinitions, the namespace "+u.Namespace+" and everything in it that is not listed above",
		fmt.Sprintf("%s, and everything that they deployed", count(u.Kustomizations, "Kustomization")))
	if len(u.Left) > 0 {
		paragraph(&b, "LEFT, WITHOUT THE LABELS OF THE INSTALLATION", spacedAll(u.Left)...)
	}
	var notes []string
	if u.InGit != "" {
		notes = append(notes, "Kustomization "+u.InGit+" applies the installation out of Git: take it out there, or whoever reconciles it brings it back")
	}
	if len(u.Deleting) > 0 {
		notes = append(notes, "being deleted, and hang until a controller runs again: "+strings.Join(bounded(u.Deleting), ", "))
	}
	if u.Kustomizations > 0 {
		notes = append(notes, "what is deployed is not reconciled any more until Flux or holdfast runs; a Kustomization that is deleted before that hangs at its finalizer",
			"for Flux to take over, first: holdfast handback --check -A", "to delete what is deployed, too: delete the Kustomizations first, while holdfast still runs")
	}
	if len(notes) > 0 && len(u.Deletes) > 0 {
		paragraph(&b, "NOTE", notes...)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func spacedAll(ids []string) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		out = append(out, spaced(id))
	}
	return out
}
