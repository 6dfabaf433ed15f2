package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// world is a Kustomization and the objects of a cluster, as far as the planner is concerned, in memory. It gathers facts and
// carries plans out as the shell does.
type world struct {
	now       time.Time
	rollout   v1.RolloutStatus
	policy    plan.Policy
	revision  string
	newest    string
	desired   object.Set
	empty     bool
	verdict   plan.Verdict
	inventory inventory.Inventory
	live      map[object.ID]*thing
	refused   map[object.ID]plan.Refusal
	order     []object.ID
	applied   bool
	word      string
	release   string
	soak      time.Duration
	writes    int
	deletedAt time.Time
	// dependents are the Kustomizations that depend on this one.
	dependents []plan.Sibling
}

// thing is a live object.
type thing struct {
	plan.Observation
	users, past []string
	// unread and unlisted are what keep it, or its users, from being read; denied is what refuses its deletion.
	unread, unlisted, denied string
	// finalizers are put on its deletion.
	finalizers []string
}

func newWorld() *world {
	return &world{
		now: now, policy: plan.Policy{Prune: true, Timeout: timeout, RetryInterval: retry}, desired: object.Set{},
		live: map[object.ID]*thing{}, refused: map[object.ID]plan.Refusal{}, inventory: inventory.Of(),
	}
}

// build makes a revision the wanted one, records it and applies it.
func (w *world) build(revision string, ids ...object.ID) {
	w.revision, w.newest, w.desired = revision, revision, object.NewSet(ids...)
	names := make([]string, 0, len(ids))
	entries := make([]inventory.Entry, 0, len(ids))
	for _, id := range ids {
		names = append(names, spell(id))
		entries = append(entries, inventory.Entry{ID: id, Version: "v1"})
	}
	slices.Sort(names)
	w.rollout = plan.Begin(w.rollout, plan.Want{Revision: revision, Digest: strings.Join(names, " "), Generation: 1}, w.now)
	w.inventory = w.inventory.Record(entries)
	w.order, w.applied = ids, false
	w.apply()
}

// apply makes way, and then brings the objects of the build to the cluster; nothing while something is in the way.
func (w *world) apply() {
	for _, d := range plan.Prune(w.facts()).Delete {
		w.delete(d)
	}
	if f := w.facts(); len(plan.InTheWay(f, plan.Prune(f))) > 0 {
		return
	}
	for _, id := range w.order {
		if w.live[id] == nil {
			w.writes++
			w.live[id] = &thing{Observation: plan.Observation{Presence: plan.Present, UID: fmt.Sprint("uid", w.writes),
				ResourceVersion: fmt.Sprint(w.writes), OwnerName: "shop", OwnerNamespace: "flux-system"}}
		}
	}
	w.applied = true
	w.rollout = plan.Applied(w.rollout, w.now, timeout)
}

func (w *world) finalizing() bool { return !w.deletedAt.IsZero() }

// facts looks at what the planner asks for, and at nothing else.
func (w *world) facts() plan.Facts {
	f := plan.Facts{Now: w.now, Owner: plan.Owner{Name: "shop", Namespace: "flux-system", ControllerNamespace: "holdfast-system"},
		Policy: w.policy, Finalizing: w.finalizing(), LeavingSince: w.deletedAt, Siblings: plan.Siblings{Known: true, List: w.dependents}}
	if f.Finalizing {
		w.desired = object.Set{}
	} else {
		f.Build = plan.Build{Revision: w.revision, Newest: w.newest, Desired: w.desired, Applied: w.applied, Healthy: w.rollout.Verified, EmptyUnproven: w.empty,
			SoakEnd: plan.SoakEnd(w.rollout, w.soak)}
	}
	released := plan.Released(w.rollout.Retained, w.release)
	confirmed, lingering := plan.Confirmed(w.rollout.Retained, w.word), plan.Lingering(w.rollout.Retained)
	for _, e := range w.inventory.Stale(w.desired) {
		s := plan.Stale{ID: e.ID, WasPruneOff: w.pruneWasOff(e.ID), Lingering: lingering.Has(e.ID), Confirmed: confirmed[e.ID], Released: released.Has(e.ID)}
		if r, ok := w.refused[e.ID]; ok {
			s.Refused = &r
		}
		f.Stale = append(f.Stale, s)
	}
	observe := object.NewSet(append(plan.NeedObservation(f), plan.NeedTiming(f)...)...)
	for i := range f.Stale {
		if observe.Has(f.Stale[i].ID) {
			f.Stale[i].Seen = w.see(f.Stale[i].ID)
		}
	}
	use := object.NewSet(plan.NeedUse(f)...)
	for i := range f.Stale {
		if t := w.live[f.Stale[i].ID]; use.Has(f.Stale[i].ID) && t != nil {
			f.Stale[i].Use = plan.Use{Known: t.unlisted == "", Why: t.unlisted, Users: t.users, Past: t.past}
		}
	}
	return f
}

func (w *world) see(id object.ID) plan.Observation {
	t := w.live[id]
	switch {
	case t == nil:
		return plan.Observation{Presence: plan.Absent}
	case t.unread != "":
		return plan.Observation{Why: t.unread}
	}
	return t.Observation
}

// step looks at the health, plans and carries the plan out. It returns the plan.
func (w *world) step() plan.Plan {
	if !w.finalizing() && w.rollout.Wanted != nil {
		if !w.applied {
			w.apply()
		}
		if w.applied {
			w.rollout = plan.Judge(w.rollout, w.verdict, w.now, plan.Terms{Timeout: timeout, Soak: w.soak})
		}
	}
	p := plan.Prune(w.facts())
	w.carryOut(p)
	w.rollout.Retained = nil
	for _, r := range p.Retain {
		w.rollout.Retained = append(w.rollout.Retained, v1.RetainedObject{
			ID: r.ID.Inventory(), Reason: r.Reason, Message: r.Message, UID: r.UID, Confirmed: r.Confirmed, Released: r.Released})
	}
	return p
}

// carryOut deletes and drops what a plan says.
func (w *world) carryOut(p plan.Plan) {
	for _, d := range p.Delete {
		w.delete(d)
	}
	for _, r := range p.Release {
		w.unlabel(r)
	}
	gone := object.Set{}
	for _, d := range p.Drop {
		gone[d.ID] = struct{}{}
		delete(w.refused, d.ID)
	}
	w.inventory = w.inventory.Without(gone)
}

// retained is what the last step remembers of an object.
func (w *world) retained(id object.ID) v1.RetainedObject {
	for _, r := range w.rollout.Retained {
		if r.ID == id.Inventory() {
			return r
		}
	}
	return v1.RetainedObject{}
}

func (w *world) pruneWasOff(id object.ID) bool {
	r := w.retained(id)
	return r.Reason == v1.RetainedPruneOff || r.Message == plan.LeftWhilePruneOff
}

// unlabel does what an API server does with a PATCH that carries preconditions.
func (w *world) unlabel(r plan.Release) {
	t := w.live[r.ID]
	if t == nil || t.UID != r.UID() || t.ResourceVersion != r.ResourceVersion() || t.denied != "" {
		return
	}
	w.writes++
	t.OwnerName, t.OwnerNamespace, t.ResourceVersion = "", "", fmt.Sprint(w.writes)
}

// delete does what an API server does with a DELETE that carries preconditions.
func (w *world) delete(d plan.Deletion) {
	t := w.live[d.ID]
	switch {
	case t == nil || t.UID != d.UID() || t.ResourceVersion != d.ResourceVersion():
	case t.denied != "":
		w.refused[d.ID] = plan.Refusal{At: w.now, Message: t.denied}
		return
	case len(t.finalizers) > 0:
		w.writes++
		t.DeletedAt, t.Finalizers, t.ResourceVersion = w.now, t.finalizers, fmt.Sprint(w.writes)
	default:
		delete(w.live, d.ID)
	}
	delete(w.refused, d.ID)
}
