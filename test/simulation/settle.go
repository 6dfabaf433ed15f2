package simulation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func schemaKind(group, kind string) schema.GroupKind {
	return schema.GroupKind{Group: group, Kind: kind}
}

// The bounds within which a world has to come to rest.
const (
	maxSettleSteps = 8000
	maxSettleTime  = 6 * time.Hour
)

// settle ends all faults, looks at what was rolled back, mends the source, and lets the world come to rest. Then nothing may be left that should be gone,
// and a further look must write nothing.
func (w *world) settle() {
	w.heal()
	w.checkRolledBack()
	w.mend()
	deadline, last := w.now.Add(maxSettleTime), w.step+maxSettleSteps
	for why := "not looked at"; ; {
		if w.violation != nil {
			return
		}
		if !w.calmStep() {
			if why = w.unsettled(); why == "" {
				break
			}
			w.checkReleased()
			if w.confirming {
				w.confirmShown()
			}
			w.unblock()
			w.releaseAll()
			w.passTime()
		}
		if w.step > last || w.now.After(deadline) {
			w.fail("never stuck", "%s", why)
			return
		}
	}
	w.checkOrphans()
	w.checkRepeatable()
	w.lastAct()
	w.checkOrphans()
}

// heal ends what kept the world from rest.
func (w *world) heal() {
	w.say("all faults end")
	w.calm, w.calmSince, w.cluster.Full = true, w.now, false
	for len(w.processes) > 1 {
		w.killProcess(w.processes[0])
	}
	w.processes[0].superseded = false
	w.cluster.All(func(u *unstructured.Unstructured) {
		id := object.IDOf(u)
		switch {
		case id.Kind == "Pod" && id.Name == "debug", id.Kind == "ConfigMap" && id.Name == "foreign":
			w.cluster.Delete("someone", id)
		case id.Kind == v1.KustomizationKind:
			w.cluster.Edit("someone", id, func(u *unstructured.Unstructured) {
				spec, _ := u.Object["spec"].(map[string]any)
				spec["suspend"], spec["prune"] = false, true
				w.mendPolicy(u)
				if first := w.kustomization(w.names[0]); first == nil || first.DeletionTimestamp != nil {
					delete(spec, "dependsOn") // nobody makes it again
				}
			})
		default:
			w.cluster.Edit("someone", id, func(u *unstructured.Unstructured) {
				a := u.GetAnnotations()
				delete(a, v1.ControlPrefix+"prune")
				u.SetAnnotations(a)
				u.SetFinalizers(nil)
				for kind, field := range map[string]string{"Deployment": "paused", "Job": "suspend"} {
					if id.Kind == kind {
						unstructured.RemoveNestedField(u.Object, "spec", field)
					}
				}
			})
		}
	})
	for _, name := range w.names {
		w.wake(name)
	}
}

// mend makes all sources sound.
func (w *world) mend() {
	w.say("the sources are mended")
	w.calmSince = w.now
	for _, s := range w.sources {
		var followed []string
		for _, name := range w.names {
			if ks := w.kustomization(name); ks != nil && ks.DeletionTimestamp == nil && w.sourceFor(name) == s {
				followed = append(followed, ks.Spec.Path)
			}
		}
		w.publish(s, s.newest().tree.mend(followed))
	}
	for _, name := range w.names {
		w.wake(name)
	}
}

// mendPolicy takes out what nobody understands.
func (w *world) mendPolicy(u *unstructured.Unstructured) {
	if policyOf(decoded(u)).invalid {
		a := u.GetAnnotations()
		delete(a, v1.AnnotationRetain)
		u.SetAnnotations(a)
	}
}

// calmStep takes a step that is due; false if there is none.
func (w *world) calmStep() bool {
	w.step++
	if done := w.cluster.Work(w.rng.Uint64()); done != "" {
		w.say("%s", done)
		return true
	}
	for _, p := range w.processes {
		if p.watches.deliver() {
			return true
		}
	}
	var next *worker
	w.each(func(k *worker) {
		if next == nil && (k.running || (!k.due.IsZero() && !k.due.After(w.now))) {
			next = k
		}
	})
	switch {
	case next == nil:
		return false
	case next.running:
		w.serve(next)
	default:
		next.begin()
	}
	return true
}

// releaseTime is how soon an object goes after its last user ended, where events tell of it: less than the time between two
// looks without them.
const releaseTime = 10 * time.Second

// checkReleased: what status shows as in use goes within seconds of the end of its last user, without a commit.
func (w *world) checkReleased() {
	for _, name := range w.names {
		ks := w.kustomization(name)
		if ks == nil || ks.Status.Rollout == nil {
			continue
		}
		for _, kept := range ks.Status.Rollout.Retained {
			id, err := object.ParseInventory(kept.ID)
			if err != nil || kept.Reason != v1.RetainedInUse || w.truth.uses.count[id] > 0 {
				continue
			}
			if free := w.now.Sub(w.truth.uses.freed[id]); free > releaseTime && w.now.Sub(w.calmSince) > settleTime {
				w.fail("never stuck", "%s has had no user for %s, and %s still shows it as in use", id, free, name)
			}
		}
	}
}

// settleTime is how long after the end of all faults waits may still be from before it.
const settleTime = 2 * time.Minute

// confirmShown is a person who confirms whatever they are asked about.
func (w *world) confirmShown() {
	for _, name := range w.names {
		ks := w.kustomization(name)
		if digest := w.shown(name); digest != "" && ks.Annotations[v1.AnnotationConfirmPrune] != digest {
			w.say("someone confirms %s for %s", digest, name)
			w.cluster.Edit("someone", kustomizationID(name), func(u *unstructured.Unstructured) {
				a := u.GetAnnotations()
				if a == nil {
					a = map[string]string{}
				}
				a[v1.AnnotationConfirmPrune] = digest
				u.SetAnnotations(a)
			})
		}
	}
}

// passTime moves the clock to the next pass that is due.
func (w *world) passTime() {
	next := w.now.Add(time.Minute)
	w.each(func(k *worker) {
		if !k.due.IsZero() && k.due.Before(next) {
			next = k.due
		}
	})
	w.ticks(next.Sub(w.now))
}

// unsettled says what is not yet as it should be at rest.
func (w *world) unsettled() string {
	for _, name := range w.names {
		ks := w.kustomization(name)
		if ks == nil {
			continue
		}
		if why := w.unfinished(ks); why != "" {
			return fmt.Sprintf("%s: %s", name, why)
		}
	}
	return ""
}

func (w *world) unfinished(ks *v1.Kustomization) string {
	if ks.DeletionTimestamp != nil {
		return fmt.Sprintf("it is being deleted: %+v", ks.Status.Conditions)
	}
	newest := w.sourceFor(ks.Name).newest()
	r := w.rendered(newest.digest, ks.Spec.Path)
	inventory := inventoryOf(ks)
	for _, e := range inventory.Entries() {
		if r.ids.Has(e.ID) {
			continue
		}
		if live := w.cluster.Get(e.ID); live == nil || ownerOf(live) != fluxNamespace+"/"+ks.Name {
			return fmt.Sprintf("%s is gone or another's and still in the inventory", e.ID)
		}
		if !w.mayStay(ks, r, e.ID) {
			return fmt.Sprintf("%s is stale and still there: %+v", e.ID, ks.Status.Rollout)
		}
	}
	for id := range r.ids {
		if w.cluster.Get(id) == nil || !inventory.Has(id) {
			return fmt.Sprintf("%s is wanted and not there: %+v", id, ks.Status.Conditions)
		}
	}
	if w.emptyByMistake(ks, r) {
		return ""
	}
	if !isReady(ks) || ks.Status.LastAppliedRevision != newest.revision {
		return fmt.Sprintf("it is not ready: %+v", ks.Status.Conditions)
	}
	return ""
}

func (w *world) emptyByMistake(ks *v1.Kustomization, r render) bool {
	return len(r.ids) == 0 && inventoryOf(ks).Len() > 0 && r.empty == "Unexplained"
}

// mayStay tells whether a stale object waits for a person, is in use, or is a namespace with something in it.
func (w *world) mayStay(ks *v1.Kustomization, r render, id object.ID) bool {
	live, policy := w.cluster.Get(id), policyOf(ks)
	demanded := policy.conditions(live)
	switch {
	case w.emptyByMistake(ks, r), demanded.unused && w.truth.uses.count[id] > 0, demanded.forgotten && w.truth.past.count[id] > 0:
		return true
	case w.waits(ks, id) && (leftWhileOff(ks, id) || demanded.word || policy.maxPrune != ""):
		return !w.confirming // somebody will
	}
	if !plan.IsNamespace(id) && !plan.IsDefinition(id) {
		return false
	}
	inside := false
	w.cluster.All(func(u *unstructured.Unstructured) {
		if (plan.IsNamespace(id) && u.GetNamespace() == id.Name) || (plan.IsDefinition(id) && u.GroupVersionKind().Group == "example.com") {
			inside = true
		}
	})
	return inside
}

// waits tells whether status shows an object as one that waits for a person.
func (w *world) waits(ks *v1.Kustomization, id object.ID) bool {
	if ks.Status.Rollout == nil {
		return false
	}
	for _, kept := range ks.Status.Rollout.Retained {
		if kept.ID == id.Inventory() {
			return kept.Reason == v1.RetainedAwaitingConfirmation
		}
	}
	return false
}

// checkRepeatable: two more passes of each Kustomization write nothing, once an interval has corrected what was changed by
// hand since the last apply.
func (w *world) checkRepeatable() {
	writes := 0
	for round := range 3 {
		if round == 1 {
			writes = w.truth.writes
		}
		for until := w.now.Add(11 * time.Minute); w.now.Before(until) && w.violation == nil; {
			if !w.calmStep() {
				w.passTime()
			}
		}
	}
	if w.truth.writes != writes {
		w.fail("repeatable", "%d writes at rest", w.truth.writes-writes)
	}
}
