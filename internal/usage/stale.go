package usage

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Stale are the objects that a Kustomization no longer wants. Such an object is a user like any other while it stays, and
// none when it goes.
type Stale struct {
	// Leaving go as soon as nothing uses them. One that is not among the targets goes in any case.
	Leaving object.Set
	// Kept stay for another reason than their users.
	Kept object.Set
}

func (s Stale) has(id object.ID) bool { return s.Leaving.Has(id) || s.Kept.Has(id) }

func (s Stale) hasAccount() bool {
	account := schema.GroupKind{Kind: serviceAccount.name}
	for _, set := range []object.Set{s.Leaving, s.Kept} {
		for id := range set {
			if id.GroupKind() == account {
				return true
			}
		}
	}
	return false
}

// Keep returns Stale with some of the objects kept.
func (s Stale) Keep(ids object.Set) Stale {
	out := Stale{Leaving: object.Set{}, Kept: object.Set{}}
	for id := range s.Leaving {
		if !ids.Has(id) {
			out.Leaving[id] = struct{}{}
		}
	}
	for _, set := range []object.Set{s.Kept, ids} {
		for id := range set {
			out.Kept[id] = struct{}{}
		}
	}
	return out
}

// leaves tells whether an object counts as a user only as long as something uses it. What runs is not meant: a workload that
// is deleted takes its pods along in its own time, and until then they need what they refer to.
func (s Stale) leaves(id object.ID) bool { return s.Leaving.Has(id) && !runs[id.GroupKind()] }

// runs are the kinds of UserKinds.
var runs = func() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, gvk := range UserKinds {
		kinds[gvk.GroupKind()] = true
	}
	return kinds
}()

// settle leaves the users that count: all that don't leave, and of those that do the ones that a user that counts keeps.
// It is the least such set, so objects that only hold each other go together.
func settle(users map[object.ID][]User, stale Stale) {
	held := object.Set{}
	counts := func(u User) bool { return !stale.leaves(u.ID) || held.Has(u.ID) }
	for changed := true; changed; {
		changed = false
		for target, list := range users {
			if !held.Has(target) && slices.ContainsFunc(list, counts) {
				held[target], changed = struct{}{}, true
			}
		}
	}
	for target, list := range users {
		if !held.Has(target) {
			delete(users, target)
			continue
		}
		users[target] = slices.DeleteFunc(list, func(u User) bool { return !counts(u) })
	}
}
