package plan

import (
	"fmt"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// What left the source while pruning was off was, for a Flux user, orphaned on purpose. A person who says so lets go of it: the
// object stays on the cluster and its entry leaves the inventory. The owner labels go first, bound to the very object that was
// seen, and what then carries none is dropped like any other object that is not ours. With the labels left on it, an
// entry that is recorded again before an apply that fails would pass for proof, and the object would be pruned with it.

// Release is an object whose owner labels are to be removed. It can't be made without a UID and a resourceVersion.
type Release struct {
	ID                   object.ID
	uid, resourceVersion string
}

// UID is the precondition on the identity of the object.
func (r Release) UID() string { return r.uid }

// ResourceVersion is the precondition on the state of the object.
func (r Release) ResourceVersion() string { return r.resourceVersion }

// IsReleasable tells whether an object left while pruning was off, so that a person may let go of it.
func IsReleasable(r v1.RetainedObject) bool {
	return r.Reason == v1.RetainedPruneOff || r.Message == LeftWhilePruneOff
}

// Releasable returns the retained objects that a person may let go of.
func Releasable(retained []v1.RetainedObject) []v1.RetainedObject {
	var out []v1.RetainedObject
	for _, r := range retained {
		if IsReleasable(r) && !r.Released {
			out = append(out, r)
		}
	}
	return out
}

// ReleaseDigest stands for the set of objects that a person may let go of, by id and the time since when each is kept, in any
// order; empty for none. Without an observation there is no UID to add: letting go deletes nothing.
func ReleaseDigest(retained []v1.RetainedObject) string {
	var lines []string
	for _, r := range Releasable(retained) {
		lines = append(lines, fmt.Sprintf("release %s %d\n", r.ID, sinceOf(r)))
	}
	return digestOf(lines)
}

// Released returns the objects that a person let go of: those that the status remembers, and those that it shows, if the
// annotation repeats the digest of exactly these.
func Released(was []v1.RetainedObject, annotation string) object.Set {
	matches := annotation != "" && annotation == ReleaseDigest(was)
	out := object.Set{}
	for _, r := range was {
		id, err := object.ParseInventory(r.ID)
		if err == nil && IsReleasable(r) && (r.Released || matches) {
			out[id] = struct{}{}
		}
	}
	return out
}

// release returns what is to be done to let go of an object; nil while it can't be, or nobody asked.
func release(s Stale) *Release {
	if !s.Released || s.Seen.Presence != Present || !s.Seen.DeletedAt.IsZero() || s.Seen.UID == "" || s.Seen.ResourceVersion == "" {
		return nil
	}
	return &Release{ID: s.ID, uid: s.Seen.UID, resourceVersion: s.Seen.ResourceVersion}
}

// released: nothing is done with an object that a person let go of but to let go of it.
func released(_ view, s Stale) *Hold {
	if !s.Released {
		return nil
	}
	hold := &Hold{Reason: v1.RetainedPruneOff, Until: "its owner labels are removed"}
	if s.Seen.Presence == Unknown && s.Seen.Why != "" {
		hold.Message, hold.Until = s.Seen.Why, "it can be read, and its owner labels are removed"
	}
	return hold
}
