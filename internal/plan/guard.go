package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// guard is one rule about one stale object: nil lets go of it, a Hold keeps it. Guards don't rely on each other: each
// would be right alone, and their order only decides which reason is shown.
type guard struct {
	name  string
	holds func(view, Stale) *Hold
}

// view is the facts together with what follows from all stale objects at once.
type view struct {
	Facts
	// blockers are the objects that later waves of the deletion wait for, in the order of deletion.
	blockers []object.ID
	// inside has, for each namespace, the first object that is wanted in it or stale and not gone.
	inside map[string]object.ID
	// dependents keep a Kustomization that is being deleted from deleting anything.
	dependents dependents
	// leaving are other Kustomizations that are about to be deleted from here.
	leaving object.Set
	// mass is what counts against maxPrune.
	mass mass
}

func newView(f Facts) view {
	v := view{Facts: f, inside: map[string]object.ID{}, dependents: dependentsOf(f)}
	note := func(id object.ID) {
		if first, ok := v.inside[id.Namespace]; !ok || object.Compare(id, first) < 0 {
			v.inside[id.Namespace] = id
		}
	}
	for id := range f.Build.Desired {
		note(id)
	}
	for _, s := range f.Stale {
		if s.Seen.Presence != Absent {
			note(s.ID)
		}
	}
	v.leaving = v.leavingSiblings()
	v.mass = newMass(v)
	alone := v // without blockers: one object does not wait for another when asked whether others wait for it
	for _, s := range f.Stale {
		if waveOf(s.ID).isAwaited() && blocksLaterWaves(alone, s) {
			v.blockers = append(v.blockers, s.ID)
		}
	}
	slices.SortFunc(v.blockers, compareDeletion)
	return v
}

// beforeSeen are the guards that need no look at the object itself.
var beforeSeen = []guard{
	{"released", released},
	{"prune off", pruneOff},
	{"unconfirmed", unconfirmed},
	{"superseded", superseded},
	{"awaiting health", awaitingHealth},
	{"dependents exist", dependentsExist},
	{"not observed", notObserved},
}

// beforeLook are those of them that hold whether the object was looked at or not.
var beforeLook = beforeSeen[:len(beforeSeen)-1]

// ofItself are the guards for an object that is present and ours, about the object itself.
var ofItself = []guard{
	{"itself", itself},
	{"prune disabled", pruneDisabled},
	{"terminating", terminating},
	{"taken over", takenOver},
	{"moved elsewhere", movedElsewhere},
	{"protected", protected},
}

// amongOthers are the guards about those that use it, and about the prune that it is part of.
var amongOthers = []guard{
	{"unallowed", unallowed},
	{"in use", inUse},
	{"revision history", revisionHistory},
	{"earlier wave", earlierWave},
	{"delete refused", deleteRefused},
	{"no proof", noProof},
}

// NeedsUse tells whether the policy makes the users of an object matter at all, so that the shell may spare the lists.
func (p Policy) NeedsUse() bool {
	return p.Retain != v1.RetainNone && p.Order != v1.PruneAfterApply
}

func firstHold(guards []guard, v view, s Stale) *Hold {
	for _, g := range guards {
		if hold := g.holds(v, s); hold != nil {
			return hold
		}
	}
	return nil
}

// hold is the verdict of all guards: nil when the object may be deleted.
func (v view) hold(s Stale) *Hold {
	for _, guards := range [][]guard{beforeSeen, ofItself, amongOthers} {
		if hold := firstHold(guards, v, s); hold != nil {
			return hold
		}
	}
	return nil
}

// pruneOff: with spec.prune false nothing is deleted; the entry stays, so that nothing is forgotten.
func pruneOff(f view, _ Stale) *Hold {
	if f.Policy.Prune {
		return nil
	}
	return &Hold{Reason: v1.RetainedPruneOff, Until: "spec.prune is true"}
}

// LeftWhilePruneOff is the message of an object that became stale while pruning was off.
const LeftWhilePruneOff = "it left the source while spec.prune was false"

// unconfirmed: what became stale while pruning was off was, for a Flux user, orphaned on purpose, and an empty
// directory is more often a mistake than a wish. Neither is deleted without a word from a person. The former comes first:
// its message is how the next pass knows the object again, while an empty directory speaks for itself each time.
func unconfirmed(f view, s Stale) *Hold {
	switch {
	case allowed(s):
		return nil
	case s.WasPruneOff:
		return &Hold{Reason: v1.RetainedAwaitingConfirmation,
			Message: LeftWhilePruneOff,
			Until:   untilConfirmed + ", it is deleted by hand, or it returns to the source"}
	case !f.Finalizing && f.Build.EmptyUnproven:
		return &Hold{Reason: v1.RetainedAwaitingConfirmation,
			Message: "the path holds no manifests; an intended empty set is a kustomization.yaml with `resources: []`",
			Until:   "the path has manifests again, or a kustomization.yaml with `resources: []`, or " + untilConfirmed}
	}
	return nil
}

// superseded: a newer artifact than the one that was built may have the object again.
func superseded(f view, _ Stale) *Hold {
	switch {
	case f.Finalizing:
		return nil
	case f.Build.Revision == "" || f.Build.Newest == "":
		return &Hold{Reason: v1.RetainedSuperseded, Message: "the newest revision of the source is not known",
			Until: "it is known and built"}
	case f.Build.Revision == f.Build.Newest:
		return nil
	}
	return &Hold{Reason: v1.RetainedSuperseded, Message: "the source has " + f.Build.Newest,
		Until: f.Build.Newest + " is built"}
}

// awaitingHealth: the point of it all. What the new revision replaces may be needed until the new revision works.
func awaitingHealth(f view, s Stale) *Hold {
	demanded := f.demands(s)
	switch {
	case f.Finalizing:
		return nil
	case demanded.healthy && (!f.Build.Applied || !f.Build.Healthy):
		return &Hold{Reason: v1.RetainedAwaitingHealth, Until: f.brings() + f.Build.untilHealthy()}
	case demanded.applied && !f.Build.Applied:
		return &Hold{Reason: v1.RetainedAwaitingHealth, Until: f.brings() + " is applied"}
	}
	return nil
}

// untilHealthy says in words when the build counts as healthy.
func (b Build) untilHealthy() string {
	if b.SoakEnd.IsZero() {
		return " is healthy"
	}
	return " has stayed healthy until " + b.SoakEnd.UTC().Format(time.RFC3339)
}

// brings names the revision that the pass brings to the cluster.
func (f Facts) brings() string { return orElse(f.Build.Brings, f.Build.Revision) }

// notObserved: what could not be read is unknown, and unknown is not gone.
func notObserved(_ view, s Stale) *Hold {
	if s.Seen.Presence != Unknown {
		return nil
	}
	return &Hold{Reason: v1.RetainedUnverified, Message: orElse(s.Seen.Why, "it was not read"), Until: "it can be read"}
}

// itself: a Kustomization that is in its own inventory, as after a bootstrap, may leave the source by mistake. Pruning it would
// finalize it, and so delete everything that the source still has. It goes when somebody deletes it.
func itself(f view, s Stale) *Hold {
	if !f.Owner.is(s.ID) {
		return nil
	}
	return &Hold{Reason: v1.RetainedProtected, Message: "a Kustomization never prunes itself", Until: "it is deleted by hand"}
}

// pruneDisabled: the object itself says no.
func pruneDisabled(_ view, s Stale) *Hold {
	if s.Seen.DisabledBy == "" {
		return nil
	}
	return &Hold{Reason: v1.RetainedPruneDisabled, Message: s.Seen.DisabledBy,
		Until: "its metadata no longer says " + s.Seen.DisabledBy}
}

// takenOver: going back undoes what the failed revision made, and nothing that was there before it: an object that it took over
// from another Kustomization, or from a person, would be missed by everyone.
func takenOver(f view, s Stale) *Hold {
	if f.Aside == nil || !f.Aside.Wants.Has(s.ID) || !f.Aside.Since.IsZero() && !s.Seen.CreatedAt.Before(f.Aside.Since) {
		return nil
	}
	return &Hold{Reason: v1.RetainedMovedElsewhere, Message: "it was there before " + f.Aside.Revision + ", which the source wants and which has it",
		Until: "that revision or a later one is applied"}
}

// terminating: deletion was accepted before; it is not sent again.
func terminating(_ view, s Stale) *Hold {
	if s.Seen.DeletedAt.IsZero() {
		return nil
	}
	hold := &Hold{Reason: v1.RetainedTerminating, Until: "it is gone"}
	if len(s.Seen.Finalizers) > 0 {
		hold.Message = fmt.Sprintf("waits for finalizers %s since %s",
			strings.Join(slices.Sorted(slices.Values(s.Seen.Finalizers)), ", "), s.Seen.DeletedAt.UTC().Format(time.RFC3339))
	}
	return hold
}

// protected: some Namespaces are never pruned, others not while something in them is wanted or still ours.
func protected(f view, s Stale) *Hold {
	if !IsNamespace(s.ID) {
		return nil
	}
	if isSystemNamespace(f.Owner, s.ID) {
		return &Hold{Reason: v1.RetainedProtected, Message: "this Namespace is never pruned",
			Until: "it is deleted by hand"}
	}
	if inside, ok := f.inside[s.ID.Name]; ok {
		return &Hold{Reason: v1.RetainedProtected, Message: "it still holds " + inside.String(),
			Until: "nothing in it is wanted or kept"}
	}
	return nil
}

// IsSystemNamespace tells whether the object is a Namespace that is never pruned.
func IsSystemNamespace(o Owner, id object.ID) bool { return isSystemNamespace(o, id) }

func isSystemNamespace(o Owner, id object.ID) bool {
	return IsNamespace(id) && (id.Name == "default" || strings.HasPrefix(id.Name, "kube-") ||
		id.Name == o.Namespace || id.Name == o.ControllerNamespace)
}

// inUse: what runs pins what it refers to, whoever owns it. Users that could not be listed count as users. A Namespace and a
// CustomResourceDefinition are used by what is in them, which their deletion would take along, whatever the policy.
func inUse(f view, s Stale) *Hold {
	container := hasContents(s.ID)
	switch {
	case !container && !f.demands(s).unused:
		return nil
	case !s.Use.Known:
		return &Hold{Reason: v1.RetainedUnverified,
			Message: "its users could not be listed: " + orElse(s.Use.Why, "nobody looked"), Until: "they can be listed"}
	case len(s.Use.Users) == 0:
		return nil
	}
	users := slices.Sorted(slices.Values(s.Use.Users))
	if container {
		return &Hold{Reason: v1.RetainedProtected, Users: users, Message: "its deletion would delete " + users[0],
			Until: "nothing is in it"}
	}
	return &Hold{Reason: v1.RetainedInUse, Users: users, Until: "nothing that runs refers to it"}
}

// earlierWave: custom resources go first and are awaited, so that their operator is still there for their
// finalizers, and child Kustomizations before the accounts and roles that they delete with. The wait is bounded by the timeout.
func earlierWave(f view, s Stale) *Hold {
	if len(f.blockers) == 0 || waveOf(s.ID) <= waveOf(f.blockers[0]) {
		return nil
	}
	first := f.blockers[0].String()
	return &Hold{Reason: v1.RetainedTerminating, Message: first + " is deleted first", Until: first + " is gone"}
}

// blocksLaterWaves tells whether an object is one that will be deleted, or is on its way out within the timeout.
// One that stays for reasons of its own blocks nothing: a refused deletion never stops the others.
func blocksLaterWaves(alone view, s Stale) bool {
	switch {
	case s.Seen.Presence != Present, s.Refused != nil, dropped(alone.Facts, s) != nil, s.Seen.DisabledBy != "", alone.Owner.is(s.ID):
		return false
	case firstHold(beforeSeen, alone, s) != nil:
		return false
	case !s.Seen.DeletedAt.IsZero():
		return alone.Now.Before(s.Seen.DeletedAt.Add(alone.Policy.Timeout))
	default:
		return alone.hold(s) == nil
	}
}

// deleteRefused: a refused deletion is tried again, at the retry interval and not at every look.
func deleteRefused(f view, s Stale) *Hold {
	// A refusal that is yet to come was met before the clock went back.
	if s.Refused == nil || f.Now.Before(s.Refused.At) || !f.Now.Before(s.Refused.At.Add(f.Policy.RetryInterval)) {
		return nil
	}
	return &Hold{Reason: v1.RetainedDeleteFailed, Message: s.Refused.Message, Until: "the API server accepts the deletion"}
}

// noProof: a deletion without the identity and state of what was seen could hit another object.
func noProof(_ view, s Stale) *Hold {
	if s.Seen.UID != "" && s.Seen.ResourceVersion != "" {
		return nil
	}
	return &Hold{Reason: v1.RetainedUnverified, Message: "it was read without UID or resourceVersion", Until: "it can be read"}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
