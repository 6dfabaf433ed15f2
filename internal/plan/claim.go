package plan

import (
	"maps"
	"slices"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Claim is an object that is wanted here, and by another Kustomization as well. Each of the two would undo what the other
// writes; neither prunes it, since movedElsewhere holds it for the other.
type Claim struct {
	ID object.ID
	// By is the other one.
	By Owner
}

// Claims returns the wanted objects that other Kustomizations want, too, each with the first of these by name. What another one
// has in its inventory and keeps from pruning is on its way here. One that has not built this revision yet, or is being
// deleted, has not said what it wants.
func Claims(f Facts) []Claim {
	v := view{Facts: f}
	var claims []Claim
	for _, id := range slices.SortedFunc(maps.Keys(f.Build.Desired), object.Compare) {
		other := v.firstSibling(func(o Sibling) bool {
			return o.Inventory.Has(id) && !o.Kept.Has(id) && !o.Deleting && !o.SpecPending && !v.isBehind(o)
		})
		if other != nil {
			claims = append(claims, Claim{ID: id, By: other.Owner})
		}
	}
	return claims
}

// String is how the Kustomization is called in messages.
func (o Owner) String() string { return o.name() }
