package simulation

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// checkWrite judges a write of the controller after it took effect.
func (w *world) checkWrite(k *worker, c modelcluster.Change) {
	id := c.ID()
	switch {
	case id == kustomizationID(k.key.Name) && c.After == nil:
		w.checkRelease(k, w.decoded(c.Before))
	case id == kustomizationID(k.key.Name):
		w.checkStatus(k, w.decoded(c.Before), w.decoded(c.After))
	case isRevision(c.Before), isRevision(c.After):
		w.checkStored(k, c)
	case k.request.Verb == modelcluster.Apply:
		w.stats.Applies++
		w.checkApply(k, c)
	case k.request.Verb == modelcluster.Delete:
		w.stats.Deletions++
	default:
		w.fail("no foreign object", "%s is written by %s", id, k.request)
	}
}

// checkApply: what is written is wanted, and was recorded before.
//
// While two processes work on one Kustomization at the same time, which leader election excludes but for the moments in which
// one has not noticed yet that it lost the lease, one may find an object absent and take it out of the inventory, and then
// the other one's apply takes effect. No precondition of server-side apply excludes that. Such an object is a stray: counted,
// and not held against anyone. Deletions are judged without such mercy.
func (w *world) checkApply(k *worker, c modelcluster.Change) {
	id := c.ID()
	ks := w.kustomization(k.key.Name)
	w.truth.applied[c.After.GetUID()] = application{w.step, k.process}
	if ks != nil && inventoryOf(ks).Has(id) {
		w.checkApplied(k, ks, id)
		return
	}
	if k.process.superseded || len(w.processes) > 1 {
		w.truth.stray[c.After.GetUID()] = true
		w.stats.Strays++
		return
	}
	w.fail("never orphaned", "%s is applied and not in the inventory of %s", id, k.key.Name)
}

// checkStatus: an entry leaves the inventory only if its object is gone or someone else's, and status stays small.
func (w *world) checkStatus(k *worker, before, after *v1.Kustomization) {
	w.checkCourse(k, before, after)
	next := inventoryOf(after)
	for _, e := range inventoryOf(before).Entries() {
		if next.Has(e.ID) {
			continue
		}
		live := w.cluster.Get(e.ID)
		if live == nil || ownerOf(live) != k.key.Namespace+"/"+k.key.Name {
			continue
		}
		t := &w.truth
		uid := live.GetUID()
		fresh := t.created[uid] >= k.seen.started || t.relabelled[uid] >= k.seen.started
		last, ok := t.applied[uid]
		switch {
		case fresh && ok && last.step >= k.seen.started && last.by != k.process:
			t.stray[uid] = true
			w.stats.Strays++
			continue
		case (fresh && t.handmade[uid]) || t.stray[uid]:
			continue // it came, or came back, after the look
		}
		w.fail("never orphaned", "%s is there and leaves the inventory of %s", e.ID, k.key.Name)
	}
	for _, condition := range after.Status.Conditions {
		w.checkText("condition "+condition.Type, condition.Message)
	}
	if r := after.Status.Rollout; r != nil {
		if r.PendingPrune != nil {
			w.checkText("status", r.PendingPrune.Message)
		}
		for _, kept := range r.Retained {
			w.stats.Retained[kept.Reason]++
			w.checkWord(k, kept)
			w.checkText("status", kept.Message)
		}
		w.checkDigest(r)
		if len(r.Retained) > 500 {
			w.fail("bounded status", "%d retained objects in status", len(r.Retained))
		}
	}
	if w.step%64 == 0 {
		if text, err := json.Marshal(after.Status); err != nil || len(text) > 256<<10 {
			w.fail("bounded status", "status of %s has %d bytes: %v", after.Name, len(text), err)
		}
	}
}

// checkWord: that a deletion is allowed is remembered only if a person allowed it.
func (w *world) checkWord(k *worker, kept v1.RetainedObject) {
	if !kept.Confirmed {
		return
	}
	for _, ks := range w.since(k.key.Name, k.seen.started) {
		if ks == nil || ks.Status.Rollout == nil {
			continue
		}
		for _, was := range ks.Status.Rollout.Retained {
			if was.ID == kept.ID && was.UID == kept.UID && (was.Confirmed || isConfirmed(ks, was)) {
				return
			}
		}
	}
	w.fail("never deleted", "%s counts as confirmed, and nobody confirmed it", kept.ID)
}

// checkDigest: one digest stands for one set of objects.
func (w *world) checkDigest(r *v1.RolloutStatus) {
	if r.PendingPrune == nil {
		return
	}
	var shown []string
	for _, kept := range r.Retained {
		if kept.Reason == v1.RetainedAwaitingConfirmation && !kept.Confirmed && kept.UID != "" {
			shown = append(shown, kept.ID+" "+kept.UID)
		}
	}
	slices.Sort(shown)
	digest, set := r.PendingPrune.Digest, strings.Join(shown, "\n")
	if before, ok := w.truth.digests[digest]; ok && before != set {
		w.fail("never deleted", "the digest %s was shown for\n%s\nand now for\n%s", digest, before, set)
	}
	w.truth.digests[digest] = set
}

// checkRelease: a Kustomization goes only when what it made is gone or left by right.
func (w *world) checkRelease(k *worker, ks *v1.Kustomization) {
	t := &w.truth
	for _, e := range inventoryOf(ks).Entries() {
		live := w.cluster.Get(e.ID)
		if live == nil || ownerOf(live) != k.key.Namespace+"/"+k.key.Name {
			continue
		}
		uid := live.GetUID()
		fresh := t.created[uid] >= k.seen.started || t.relabelled[uid] >= k.seen.started
		if fresh || live.GetDeletionTimestamp() != nil || w.mayBeLeft(k, ks, live) {
			t.left[uid] = true
			continue
		}
		w.fail("never orphaned", "%s is there and %s lets go of it", e.ID, ks.Name)
	}
}

// mayBeLeft tells whether a Kustomization that goes may leave an object.
func (w *world) mayBeLeft(k *worker, ks *v1.Kustomization, live *unstructured.Unstructured) bool {
	id := object.IDOf(live)
	for _, spec := range w.since(ks.Name, k.seen.started) {
		if spec != nil && leavesAll(spec) {
			return true
		}
	}
	if policyOf(ks).conditions(live).word || isKept(live) || w.truth.unkept[live.GetUID()] >= k.seen.started || leftWhileOff(ks, id) {
		return true
	}
	// A process waits for others until the timeout, from when it began to; after that, what others need stays.
	if ks.DeletionTimestamp == nil || w.now.Before(k.leaving.Add(ks.Spec.Timeout.Duration-time.Second)) {
		return false
	}
	if w.isUsed(k, id) || plan.IsNamespace(id) || plan.IsDefinition(id) {
		return true
	}
	for _, name := range w.names {
		if name != ks.Name && w.mayTake(k, name, id) {
			return true
		}
	}
	return false
}

// isUsed tells whether something used an object while the pass went on, or could be rolled back to it.
func (w *world) isUsed(k *worker, id object.ID) bool {
	u, p := w.truth.uses, w.truth.past
	return u.count[id] > 0 || u.lastUsed[id] >= k.seen.started || p.count[id] > 0 || p.lastUsed[id] >= k.seen.started
}

// mayTake tells whether another Kustomization has the object in its inventory, or follows the same source and did not build
// all of it by the spec that it has while the pass went on, so that nobody knows whether it wants the object.
func (w *world) mayTake(k *worker, name string, id object.ID) bool {
	for _, other := range w.since(name, k.seen.started) {
		if other == nil {
			continue
		}
		if inventoryOf(other).Has(id) {
			return true
		}
		built, pending := "", false
		if r := other.Status.Rollout; r != nil && r.Wanted != nil {
			built, pending = r.Wanted.Revision, r.WantedGeneration != other.Generation
		}
		for _, p := range w.sourceFor(name).since(k.seen.started) {
			if w.sourceFor(name) == w.sourceFor(k.key.Name) && (pending || built != p.revision) {
				return true
			}
		}
	}
	return false
}

// checkOrphans looks at all there is: whatever carries our labels because we put them there is in the inventory.
func (w *world) checkOrphans() {
	inventories := map[string]*v1.Kustomization{}
	for _, name := range w.names {
		if ks := w.kustomization(name); ks != nil {
			inventories[fluxNamespace+"/"+name] = ks
		}
	}
	w.cluster.All(func(u *unstructured.Unstructured) {
		uid, owner := u.GetUID(), ownerOf(u)
		if owner == "" || w.truth.handmade[uid] || w.truth.stray[uid] || w.truth.left[uid] || len(u.GetOwnerReferences()) > 0 {
			return
		}
		ks := inventories[owner]
		if ks == nil || !inventoryOf(ks).Has(object.IDOf(u)) {
			w.fail("never orphaned", "%s says that it belongs to %s, which does not know it", object.IDOf(u), owner)
		}
	})
}
