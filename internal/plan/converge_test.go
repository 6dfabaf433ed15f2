package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// Whatever happens on the way, nothing is deleted that must stay; and once the build is healthy, nothing is in use and
// the API server answers, everything stale goes. Nothing that was applied is ever forgotten.
func TestPlansConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		created := map[object.ID]string{}
		subset := func() []object.ID {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(population), 0, 6, rapid.ID[object.ID]).Draw(t, "build")
		}
		for i := range rapid.IntRange(1, 20).Draw(t, "events") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
			w.happen(t, i, subset)
			w.checkedStep(t, created)
		}
		w.newest, w.verdict, w.empty, w.policy.Max = w.revision, plan.Healthy, false, limit("")
		for _, live := range w.live {
			live.users, live.unread, live.unlisted, live.denied, live.finalizers, live.When = nil, "", "", "", nil, ""
		}
		// Deletion goes wave by wave, and every wave takes a look to be seen gone; a look away from done is not done.
		for range 12 {
			w.finish()
			p := w.checkedStep(t, created)
			w.now = w.now.Add(max(p.Recheck, retry))
		}
		for _, e := range w.inventory.Entries() {
			if !w.desired.Has(e.ID) && !w.mayStay(e.ID) {
				t.Fatalf("%s is stuck:\n%s", e.ID, printPlan(plan.Prune(w.facts())))
			}
		}
		before := printPlan(plan.Prune(w.facts()))
		if after := printPlan(w.checkedStep(t, created)); after != before {
			t.Fatalf("at rest, but the plan changes from\n%s to\n%s", before, after)
		}
	})
}

// happen is one event of the environment, or a new build.
func (w *world) happen(t *rapid.T, i int, subset func() []object.ID) {
	kinds := []string{"users", "users", "verdict", "verdict", "unread", "unlisted", "denied", "finalizers", "gone", "owner", "disabled",
		"source", "build", "build", "empty", "prune", "edit", "finish", "limit", "confirm", "confirm", "when"}
	kind := rapid.SampledFrom(kinds).Draw(t, "event")
	if i == 0 {
		kind = "build"
	}
	toggle := func(s string) string {
		if s == "" {
			return "no"
		}
		return ""
	}
	switch kind {
	case "build":
		w.empty = false
		w.build(fmt.Sprint("v", i), subset()...)
		return
	case "empty":
		w.empty = true
		w.build(fmt.Sprint("v", i))
		return
	case "source":
		w.newest = "newer"
		return
	case "prune":
		w.policy.Prune = !w.policy.Prune
		return
	case "verdict":
		w.verdict = rapid.SampledFrom([]plan.Verdict{plan.Healthy, plan.Healthy, plan.InProgress, plan.Failed}).Draw(t, "verdict")
		return
	case "finish":
		w.finish()
		return
	case "limit":
		w.policy.Max = limit(rapid.SampledFrom([]string{"", "0", "0", "2"}).Draw(t, "limit"))
		return
	case "confirm":
		w.word = plan.Digest(w.rollout.Retained)
		return
	}
	var ids []object.ID
	for id := range w.live {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return
	}
	slices.SortFunc(ids, object.Compare)
	id := rapid.SampledFrom(ids).Draw(t, "object")
	live := w.live[id]
	if kind != "users" && kind != "unread" && kind != "unlisted" {
		w.writes++
		live.ResourceVersion = fmt.Sprint(w.writes)
	}
	switch kind {
	case "users":
		live.users = rapid.SampledFrom([][]string{nil, nil, {"Pod/a/p"}}).Draw(t, "users")
	case "unread":
		live.unread = toggle(live.unread)
	case "unlisted":
		live.unlisted = toggle(live.unlisted)
	case "denied":
		live.denied = toggle(live.denied)
	case "finalizers":
		live.finalizers = []string{"f"}
	case "gone":
		delete(w.live, id)
	case "owner":
		live.OwnerName = "other"
	case "disabled":
		live.DisabledBy = toggle(live.DisabledBy)
	case "when":
		live.When = rapid.SampledFrom([]v1.PruneWhen{"", v1.PruneWhenUnused, v1.PruneConfirm}).Draw(t, "when")
	}
}

// finish ends what is on its way out.
func (w *world) finish() {
	for id, live := range w.live {
		if !live.DeletedAt.IsZero() {
			delete(w.live, id)
		}
	}
}

// checkedStep is a step, and the invariants about it.
func (w *world) checkedStep(t *rapid.T, created map[object.ID]string) plan.Plan {
	for id := range w.desired {
		if live := w.live[id]; live != nil {
			created[id] = live.UID
		}
	}
	recorded, before := w.inventory, map[object.ID]thing{}
	for id, live := range w.live {
		before[id] = *live
	}
	shown, word, most := w.rollout.Retained, w.word, w.policy.Max.String()
	p := w.step()
	w.checkConfirmed(t, p, shown, word, most, before)
	for _, d := range p.Delete {
		live, seen := before[d.ID]
		switch {
		case w.desired.Has(d.ID), !recorded.Has(d.ID), !seen, live.UID != d.UID():
			t.Fatalf("%s is deleted, but it is wanted, not ours, or another", d.ID)
		case len(live.users) > 0 || live.unlisted != "" || live.unread != "" || live.DisabledBy != "" || live.OwnerName != "shop":
			t.Fatalf("%s is deleted: %+v", d.ID, live)
		}
		if !w.rollout.Verified || w.newest != w.revision || !w.policy.Prune {
			t.Fatalf("%s is deleted too early:\n%s", d.ID, printPlan(p))
		}
	}
	for id, uid := range created {
		if live := w.live[id]; live != nil && live.UID == uid && live.OwnerName == "shop" && !w.inventory.Has(id) {
			t.Fatalf("%s is orphaned", id)
		}
	}
	return p
}

// checkConfirmed checks that nothing goes without the word of a person that needs one: that word was given about a list that was
// shown, and the object is in it with the UID that it has.
func (w *world) checkConfirmed(t *rapid.T, p plan.Plan, shown []v1.RetainedObject, word, most string, before map[object.ID]thing) {
	asked := map[string]v1.RetainedObject{}
	for _, r := range shown {
		asked[r.ID] = r
	}
	for _, d := range p.Delete {
		was := asked[d.ID.Inventory()]
		said := was.UID == d.UID() && (was.Confirmed || was.Reason == v1.RetainedAwaitingConfirmation && word == plan.Digest(shown))
		lingers := was.Reason == v1.RetainedInUse || was.Reason == v1.RetainedRevisionHistory
		switch {
		case said:
		case w.empty, before[d.ID].When == v1.PruneConfirm, was.Reason == v1.RetainedPruneOff, was.Message == plan.LeftWhilePruneOff,
			most == "0" && !lingers && !strings.HasSuffix(d.ID.Name, "-g5b2m5gtd8"):
			t.Fatalf("%s is deleted, and nobody said so: shown as %+v, the limit is %q", d.ID, was, most)
		}
	}
}

// mayStay tells whether an object is kept for a reason that nothing but a person ends.
func (w *world) mayStay(id object.ID) bool {
	live := w.live[id]
	if live == nil {
		return !w.policy.Prune // nobody looks while pruning is off
	}
	if !w.policy.Prune || live.DisabledBy != "" || w.pruneWasOff(id) {
		return true
	}
	if id.Kind != "Namespace" {
		return false
	}
	if slices.Contains([]string{"default", "kube-system", "flux-system", "holdfast-system"}, id.Name) {
		return true
	}
	for inside := range w.desired {
		if inside.Namespace == id.Name {
			return true
		}
	}
	for inside := range w.live {
		if inside.Namespace == id.Name && w.inventory.Has(inside) {
			return true
		}
	}
	return false
}
