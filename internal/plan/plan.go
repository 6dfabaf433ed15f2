package plan

import (
	"slices"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Plan is the decision about every stale object. Each is in exactly one of the three lists.
type Plan struct {
	// Delete are the deletions to send, in order.
	Delete []Deletion
	// Drop are the entries that leave the inventory without a deletion.
	Drop []Drop
	// Retain are the objects that are kept, with the reason of each.
	Retain []Retention
	// Release are the retained objects whose owner labels are to be removed, in order, since a person let go of them.
	Release []Release
	// Recheck is how long the shell may wait before it gathers facts again; zero when nothing but a change of the
	// source, the spec or the interval can matter.
	Recheck time.Duration
}

// Deletion is a deletion bound to the very object that was seen. It can't be made without a UID and a resourceVersion.
type Deletion struct {
	ID                   object.ID
	uid, resourceVersion string
}

// UID is the precondition on the identity of the object.
func (d Deletion) UID() string { return d.uid }

// ResourceVersion is the precondition on the state of the object.
func (d Deletion) ResourceVersion() string { return d.resourceVersion }

// DropReason says why an entry leaves the inventory without a deletion.
type DropReason string

const (
	// Gone means: the object is not on the cluster: never created, or deleted since.
	Gone DropReason = "Gone"
	// Foreign means: the object's owner labels don't name this Kustomization; it stays on the cluster.
	Foreign DropReason = "Foreign"
)

// Drop is an entry that leaves the inventory without a deletion.
type Drop struct {
	ID     object.ID
	Reason DropReason
	// Message says who owns a foreign object.
	Message string
}

// Retention is an object that is kept.
type Retention struct {
	ID object.ID
	Hold
	// UID is that of the object whose deletion waits for a person, or was confirmed.
	UID string
	// Confirmed is true when a person allowed the deletion of the object with this UID.
	Confirmed bool
	// Released is true when a person let go of the object.
	Released bool
}

// Hold is the verdict of a guard that does not let go.
type Hold struct {
	Reason v1.RetentionReason
	// Message says what the reason alone does not.
	Message string
	// Users are those that refer to the object, sorted.
	Users []string
	// Until says in words what ends the retention.
	Until string
}

// recheck is how soon each reason is worth a second look when no event announces its end.
var recheck = map[v1.RetentionReason]time.Duration{
	v1.RetainedInUse:           5 * time.Second,
	v1.RetainedRevisionHistory: 30 * time.Second,
	v1.RetainedMovedElsewhere:  5 * time.Second,
	v1.RetainedDependentsExist: 5 * time.Second,
	v1.RetainedTerminating:     2 * time.Second,
	v1.RetainedUnverified:      10 * time.Second,
	v1.RetainedSuperseded:      time.Second,
}

// afterDelete is how soon to look whether a deletion that was accepted is done.
const afterDelete = time.Second

// Prune decides about every stale object.
func Prune(f Facts) Plan {
	var p Plan
	v := newView(f)
	for _, s := range sorted(f.Stale) {
		if drop := dropped(f, s); drop != nil {
			p.Drop = append(p.Drop, *drop)
			continue
		}
		if r := release(s); r != nil {
			p.Release = append(p.Release, *r)
		}
		if hold := v.hold(s); hold != nil {
			p.Retain = append(p.Retain, retention(s, *hold))
			continue
		}
		p.Delete = append(p.Delete, Deletion{ID: s.ID, uid: s.Seen.UID, resourceVersion: s.Seen.ResourceVersion})
	}
	p.Recheck = p.nextLook(f)
	return p
}

// retention remembers with a hold what a person was asked, or said. With spec.prune false again, a word given before is
// void.
func retention(s Stale, hold Hold) Retention {
	r := Retention{ID: s.ID, Hold: hold, Released: s.Released}
	switch {
	case s.Confirmed != "" && hold.Reason != v1.RetainedPruneOff && (s.Seen.UID == s.Confirmed || s.Seen.Presence == Unknown):
		r.UID, r.Confirmed = s.Confirmed, true
	case hold.Reason == v1.RetainedAwaitingConfirmation && s.Seen.Presence == Present:
		r.UID = s.Seen.UID
	}
	return r
}

// dropped tells whether the entry leaves the inventory without a deletion: the object is known to be gone or to be
// someone else's. No policy bears on that: there is nothing to keep.
func dropped(f Facts, s Stale) *Drop {
	switch {
	case s.Seen.Presence == Unknown:
		return nil
	case s.Seen.Presence == Absent:
		return &Drop{ID: s.ID, Reason: Gone}
	case s.Seen.OwnerName != f.Owner.Name || s.Seen.OwnerNamespace != f.Owner.Namespace:
		return &Drop{ID: s.ID, Reason: Foreign, Message: ownerOf(s.Seen)}
	}
	return nil
}

func ownerOf(o Observation) string {
	if o.OwnerName == "" && o.OwnerNamespace == "" {
		return "no Kustomization"
	}
	return "Kustomization/" + o.OwnerNamespace + "/" + o.OwnerName
}

// nextLook is the shortest recheck time over all that is kept or being deleted.
func (p Plan) nextLook(f Facts) time.Duration {
	var next time.Duration
	shorten := func(d time.Duration) {
		if d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	if len(p.Delete) > 0 {
		shorten(afterDelete)
	}
	refusedAt := map[object.ID]time.Time{}
	for _, s := range f.Stale {
		if s.Refused != nil {
			refusedAt[s.ID] = s.Refused.At
		}
	}
	for _, r := range p.Retain {
		switch {
		case r.Reason == v1.RetainedDeleteFailed:
			shorten(refusedAt[r.ID].Add(f.Policy.RetryInterval).Sub(f.Now))
		case r.Reason == v1.RetainedProtected && len(r.Users) > 0:
			shorten(recheck[v1.RetainedInUse]) // what is in it may go at any time
		default:
			shorten(recheck[r.Reason])
		}
	}
	return next
}

// Reasons counts the retained objects by reason.
func (p Plan) Reasons() map[v1.RetentionReason]int {
	counts := map[v1.RetentionReason]int{}
	for _, r := range p.Retain {
		counts[r.Reason]++
	}
	return counts
}

// sorted returns the stale objects in the order of deletion, whatever the order they came in.
func sorted(stale []Stale) []Stale {
	out := slices.Clone(stale)
	slices.SortFunc(out, func(a, b Stale) int { return compareDeletion(a.ID, b.ID) })
	return out
}

// NeedObservation returns the stale objects about which nothing but a look at them can decide. The others are held by
// policy or by the state of the rollout, and reading them would be a waste. One that waits for a person is read: the
// person is asked about the very object that is there, and may have deleted it by hand.
func NeedObservation(f Facts) []object.ID {
	v := newView(f)
	var ids []object.ID
	for _, s := range sorted(f.Stale) {
		hold := firstHold(beforeLook, v, s)
		if hold == nil || s.Released || hold.Reason == v1.RetainedAwaitingConfirmation {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// NeedUse returns the stale objects whose users decide about them: those that were seen and that no rule about the
// object itself holds.
func NeedUse(f Facts) []object.ID {
	var ids []object.ID
	v := newView(f)
	for _, s := range sorted(f.Stale) {
		if firstHold(beforeSeen, v, s) != nil || dropped(f, s) != nil {
			continue
		}
		if pruneDisabled(v, s) != nil || terminating(v, s) != nil || unallowed(v, s) != nil {
			continue
		}
		if v.demands(s).unused || hasContents(s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
