package report

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Tree is the answer of `holdfast tree`: what a Kustomization has in its inventory, and what those in it have.
type Tree struct {
	// Object as Kind/namespace/name, with the group where there is one.
	Object string `json:"object"`
	// State, Runs and Why are those of a Kustomization.
	State State  `json:"state,omitempty"`
	Runs  string `json:"runs,omitempty"`
	Why   string `json:"why,omitempty"`
	// Kept is why the object is kept from pruning; empty where it is wanted.
	Kept v1.RetentionReason `json:"kept,omitempty"`
	// Note says why what is in a Kustomization is not shown.
	Note string `json:"note,omitempty"`
	// Has is what is in the inventory of a Kustomization.
	Has []Tree `json:"has,omitempty"`
}

// FindKustomization reads a Kustomization; nil with the reason when there is none to show.
type FindKustomization func(namespace, name string) (ks *v1.Kustomization, why string)

// TreeOf follows the inventories, down to Kustomizations that were shown above already.
func TreeOf(root *v1.Kustomization, find FindKustomization) Tree {
	t := Tree{Object: object.ID{Group: v1.GroupVersion.Group, Kind: v1.KustomizationKind, Namespace: root.Namespace, Name: root.Name}.String()}
	t.follow(root, find, map[string]bool{})
	return t
}

// follow fills in what a Kustomization is and has.
func (t *Tree) follow(ks *v1.Kustomization, find FindKustomization, shown map[string]bool) {
	k := KustomizationOf(ks, nil)
	t.State, t.Runs, t.Why = k.State, k.Runs, k.Why
	if shown[k.Key()] {
		t.Note = "shown above"
		return
	}
	shown[k.Key()] = true
	if ks.Spec.KubeConfig != nil {
		t.Note = "its objects are on another cluster"
	}
	kept := map[string]v1.RetentionReason{}
	if r := ks.Status.Rollout; r != nil {
		for _, retained := range r.Retained {
			kept[retained.ID] = retained.Reason
		}
	}
	for _, entry := range inventory.Decode(ks.Status.Inventory).Entries() {
		child := Tree{Object: entry.ID.String(), Kept: kept[entry.ID.Inventory()]}
		if isNested(entry.ID) && ks.Spec.KubeConfig == nil {
			if nested, why := find(entry.ID.Namespace, entry.ID.Name); nested != nil {
				child.follow(nested, find, shown)
			} else {
				child.Note = why
			}
		}
		t.Has = append(t.Has, child)
	}
}

func isNested(id object.ID) bool {
	return id.Group == v1.GroupVersion.Group && id.Kind == v1.KustomizationKind
}

// WriteText draws the tree.
func (t Tree) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	b.WriteString(t.line(o) + "\n")
	t.draw(&b, "", o)
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Tree) draw(b *strings.Builder, indent string, o TextOptions) {
	for i, child := range t.Has {
		branch, below := "|-- ", "|   "
		if i == len(t.Has)-1 {
			branch, below = "`-- ", "    "
		}
		b.WriteString(indent + branch + child.line(o) + "\n")
		child.draw(b, indent+below, o)
	}
}

// line is the object and what is to be said of it.
func (t Tree) line(o TextOptions) string {
	line := spaced(t.Object)
	if t.State != "" {
		line += "  " + string(t.State) + "  " + o.revision(t.Runs)
		if t.Why != "" {
			line += "  " + o.why(t.Why)
		}
	}
	if t.Kept != "" {
		line += fmt.Sprintf("  kept: %s", t.Kept)
	}
	if t.Note != "" {
		line += "  (" + t.Note + ")"
	}
	return line
}
