package plan

import (
	"fmt"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Siblings are the other Kustomizations of the cluster. The zero value is unknown, and holds.
type Siblings struct {
	// Known is true when they were listed in full: a list that a namespace or a selector narrows proves nothing.
	Known bool
	// Why says what kept them from being listed.
	Why string
	// List has them in any order.
	List []Sibling
}

// Sibling is what matters of another Kustomization.
type Sibling struct {
	Owner
	// UID of the Kustomization as an object of the controller's own cluster.
	UID string
	// SameSource is true when it follows the source of this one.
	SameSource bool
	// Suspended is true when it does not take up revisions.
	Suspended bool
	// Deleting is true when it is being deleted, so that it takes up no revision any more.
	Deleting bool
	// DependsOn are the Kustomizations that it depends on.
	DependsOn []Owner
	// BuiltRevision is the revision that its inventory speaks of: the two are stored in one write, or the revision after the
	// inventory. Empty while that is not certain.
	BuiltRevision string
	// SpecPending is true when its spec changed after it built that revision, so that the inventory speaks of another spec.
	SpecPending bool
	// Inventory are the objects that it may have created or is about to create.
	Inventory object.Set
	// Kept are the objects of it that the other one no longer wants, as far as its status shows them.
	Kept object.Set
}

// name is how a Kustomization is called in messages.
func (o Owner) name() string { return "Kustomization/" + o.Namespace + "/" + o.Name }

// movedElsewhere: what leaves one Kustomization often turns up in another one of the same commit, and whichever comes first
// must not delete what the other is about to apply. So the object is kept while the inventory of another one has it, and
// until every other one of the same source has built this revision with its spec of now, and so shown whether it has it. Those that
// are about to go themselves are not waited for. Time alone releases nothing. Once the other one has applied the object, its owner labels are the other's, and the entry is dropped.
//
// A Kustomization that is being deleted may have a successor under another name, which has built nothing yet. It waits as
// well, for the newest revision of the source, and Finalize bounds the wait.
func movedElsewhere(f view, s Stale) *Hold {
	if !f.Siblings.Known {
		return siblingsUnknown(f)
	}
	if other := f.firstSibling(func(o Sibling) bool { return o.Inventory.Has(s.ID) }); other != nil {
		return &Hold{Reason: v1.RetainedMovedElsewhere, Message: other.name() + " has it in its inventory",
			Until: other.name() + " has applied it or lets go of it"}
	}
	if !f.demands(s).siblings {
		return nil
	}
	behind := f.firstSibling(f.isBehind)
	if behind == nil {
		return nil
	}
	what := orElse(f.awaitedRevision(), "a revision of the source")
	if behind.BuiltRevision != "" && behind.SpecPending {
		what = "its changed spec"
	}
	return &Hold{Reason: v1.RetainedMovedElsewhere,
		Message: fmt.Sprintf("%s has not built %s yet and may have it", behind.name(), what),
		Until:   fmt.Sprintf("%s has built %s, or is suspended", behind.name(), what)}
}

// isBehind tells whether the inventory of another Kustomization does not show yet what the source has for it. One that is
// suspended, being deleted or about to be deleted from here takes up nothing.
func (v view) isBehind(o Sibling) bool {
	if !o.SameSource || o.Suspended || o.Deleting || v.leaving.Has(o.id()) {
		return false
	}
	want := v.awaitedRevision()
	return o.SpecPending || o.BuiltRevision == "" || want != "" && o.BuiltRevision != want
}

// leavingSiblings are the other Kustomizations that are stale here, that nobody else has and that go as soon as they may. What the
// revision has for one that it does not have itself is wanted by nobody. Without this, a Kustomization that left the source together
// with its directory would keep itself: it can't build a revision that lacks its path.
func (v view) leavingSiblings() object.Set {
	out := object.Set{}
	for _, s := range v.Stale {
		if v.isSibling(s) && v.goesAnyway(s) {
			out[s.ID] = struct{}{}
		}
	}
	return out
}

// isSibling tells whether a stale object is one of the other Kustomizations: by its UID, since the objects of this one may be on
// another cluster.
func (v view) isSibling(s Stale) bool {
	if s.ID.GroupKind() != v.Owner.id().GroupKind() || s.Seen.Presence != Present || dropped(v.Facts, s) != nil {
		return false
	}
	return v.firstSibling(func(o Sibling) bool { return o.id() == s.ID && o.UID != "" && o.UID == s.Seen.UID }) != nil
}

// goesAnyway tells whether a stale object goes if no other Kustomization turns out to have it.
func (v view) goesAnyway(s Stale) bool {
	if v.firstSibling(func(o Sibling) bool { return o.Inventory.Has(s.ID) }) != nil {
		return false
	}
	return firstHold(beforeSeen, v, s) == nil && firstHold(staysForItself, v, s) == nil && (allowed(s) || !v.demands(s).word)
}

// staysForItself are the guards that keep an object for what it is, whatever the other Kustomizations want.
var staysForItself = []guard{
	{"itself", itself},
	{"prune disabled", pruneDisabled},
	{"taken over", takenOver},
}

// awaitedRevision is the revision that the others are to have built; empty when a deletion has no source to tell it.
func (v view) awaitedRevision() string {
	if v.Finalizing {
		return v.Build.Newest
	}
	return v.Build.Revision
}

// firstSibling returns the first sibling, by name, that matches.
func (v view) firstSibling(matches func(Sibling) bool) *Sibling {
	var first *Sibling
	for i := range v.Siblings.List {
		other := &v.Siblings.List[i]
		if matches(*other) && (first == nil || other.name() < first.name()) {
			first = other
		}
	}
	return first
}
