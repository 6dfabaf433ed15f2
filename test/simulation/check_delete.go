package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// checkDelete judges a deletion at the moment at which it takes effect, by what is the case at that moment.
//
// The object's own state needs no allowance: the preconditions of the deletion bind it to what was read. What the decision
// stands on beside the object (the source, the spec, the other Kustomizations, the users) is read before the deletion, and may
// change between the two; no client of an API without transactions can exclude that. The allowance is exact: a
// deletion is right if it would have been right at some moment between the look at a fact (worker.seen) and its effect.
// What held through all of that time, the controller had to see.
func (w *world) checkDelete(by string, obj *unstructured.Unstructured) {
	k := w.workers[by]
	if k == nil {
		return
	}
	if isRevision(obj) {
		w.checkForgotten(k, obj)
		return
	}
	id := object.IDOf(obj)
	pre := k.request.Preconditions
	name := k.key.Namespace + "/" + k.key.Name
	switch {
	case pre.UID == nil || pre.ResourceVersion == nil:
		w.fail("never deleted", "%s is deleted without preconditions", id)
	case ownerOf(obj) != name:
		w.fail("never deleted", "%s is deleted for %s, but belongs to %q", id, name, ownerOf(obj))
	case isKept(obj):
		w.fail("never deleted", "%s is deleted, but its metadata forbids it", id)
	case obj.GetDeletionTimestamp() != nil:
		w.fail("never deleted", "%s is deleted twice", id)
	case id.Kind == "Namespace" && (id.Name == "default" || id.Name == fluxNamespace || strings.HasPrefix(id.Name, "kube-") || id.Name == "holdfast-system"):
		w.fail("never deleted", "%s is deleted", id)
	}
	if w.lately(k) == nil {
		w.fail("never deleted", "%s is deleted for a Kustomization that is gone", id)
		return
	}
	has := func(ks *v1.Kustomization) bool { return ks != nil && inventoryOf(ks).Has(id) }
	if !slices.ContainsFunc(w.since(k.key.Name, k.seen.self), has) {
		w.fail("never deleted", "%s is deleted, but is not in the inventory of %s", id, name)
	}
	w.checkPolicy(k, obj)
	w.checkTakenOver(k, obj)
	w.checkSiblings(k, obj)
	w.checkUsers(k, obj)
	w.checkContents(k, id)
	w.checkAmount(k, obj)
}

// lately is the Kustomization of a worker as it is, or as it was at last since the pass looked at it.
func (w *world) lately(k *worker) *v1.Kustomization {
	var last *v1.Kustomization
	for _, ks := range w.since(k.key.Name, k.seen.self) {
		if ks != nil {
			last = ks
		}
	}
	return last
}

// isKept tells whether an object's own metadata keeps it.
func isKept(obj *unstructured.Unstructured) bool {
	a := obj.GetAnnotations()
	return a[v1.ControlPrefix+"prune"] == "disabled" || a[v1.ControlPrefix+"reconcile"] == "disabled"
}

// checkPolicy: while the pass went on there was a moment at which the spec of that moment and the artifact of that moment
// allowed the deletion.
func (w *world) checkPolicy(k *worker, obj *unstructured.Unstructured) {
	id, specs, why := object.IDOf(obj), w.since(k.key.Name, k.seen.self), "nothing was looked at"
	if specs[0] != nil && specs[0].DeletionTimestamp != nil {
		for _, ks := range specs {
			if why = w.forbidsFarewell(ks, obj); why == "" {
				return
			}
		}
		w.fail("never deleted", "%s is deleted with %s: %s", id, k.key.Name, why)
		return
	}
	for _, ks := range specs {
		for _, p := range w.sourceFor(k.key.Name).since(k.seen.source) {
			if why = w.forbids(ks, p, obj); why == "" {
				return
			}
		}
	}
	if w.hadWord(k, obj) && why == needsWord {
		return
	}
	w.fail("never deleted", "%s is deleted for %s: %s", id, k.key.Name, why)
}

// hadWord tells whether some state of the Kustomization since the pass began has a word for the deletion of an object.
func (w *world) hadWord(k *worker, obj *unstructured.Unstructured) bool {
	for _, ks := range w.since(k.key.Name, k.seen.started) {
		if hasWord(ks, obj) {
			return true
		}
	}
	return false
}

// needsWord is what forbids a deletion that a person may allow.
const needsWord = "nobody allowed it"

// forbidsFarewell says why a Kustomization that is being deleted has to leave an object.
func (w *world) forbidsFarewell(ks *v1.Kustomization, obj *unstructured.Unstructured) string {
	switch {
	case ks == nil:
		return ""
	case leavesAll(ks):
		return "the deletion policy leaves all"
	case hasWord(ks, obj):
		return ""
	case policyOf(ks).conditions(obj).word:
		return needsWord
	case ks.Flux().GetDeletionPolicy() == fluxv1.DeletionPolicyMirrorPrune && leftWhileOff(ks, object.IDOf(obj)):
		return "it left the source while pruning was off"
	}
	return ""
}

func leavesAll(ks *v1.Kustomization) bool {
	policy := ks.Flux().GetDeletionPolicy()
	return ks.Spec.Suspend || policy == fluxv1.DeletionPolicyOrphan || (policy == fluxv1.DeletionPolicyMirrorPrune && !ks.Spec.Prune)
}

// forbids says why a spec and an artifact together forbid a deletion; empty if they don't.
func (w *world) forbids(ks *v1.Kustomization, p publication, obj *unstructured.Unstructured) string {
	if ks == nil {
		return "there is no Kustomization"
	}
	id, r, policy := object.IDOf(obj), w.goal(ks, p), policyOf(ks)
	demanded := policy.conditions(obj)
	switch {
	case ks.Spec.Suspend:
		return "it is suspended"
	case policy.invalid:
		return "its policy can't be understood"
	case !ks.Spec.Prune:
		return "pruning is off"
	case r.fails:
		return p.revision + " does not build"
	case r.ids.Has(id):
		return p.revision + " has it"
	}
	if demanded.healthy {
		if why := w.unhealthy(r, policy.soak); why != "" {
			return why
		}
	}
	// The word comes last: hadWord stands in for it, and for nothing else.
	if (r.empty == build.EmptyUnexplained || leftWhileOff(ks, id) || demanded.word) && !hasWord(ks, obj) {
		return needsWord
	}
	return ""
}

// leftWhileOff tells whether status says so.
func leftWhileOff(ks *v1.Kustomization, id object.ID) bool {
	if ks.Status.Rollout == nil {
		return false
	}
	for _, kept := range ks.Status.Rollout.Retained {
		if kept.ID == id.Inventory() && (kept.Reason == v1.RetainedPruneOff || kept.Message == plan.LeftWhilePruneOff) {
			return true
		}
	}
	return false
}

// unhealthy names a workload of a build that never ran as the build wants it, or not for long enough by now.
func (w *world) unhealthy(r render, soak time.Duration) string {
	for _, want := range r.objects() {
		if podPath[want.GetKind()] == nil || (want.GetKind() == "Job" && (isSuspended(want) || r.back)) {
			continue
		}
		id := object.IDOf(want)
		first, ok := w.truth.healthy[id][templateOf(want)]
		switch {
		case !ok:
			return id.String() + " was never healthy as it is wanted"
		case first.step > w.truth.jumpedBack && w.now.Sub(first.at) < soak-time.Second: // status holds whole seconds
			return fmt.Sprintf("%s is healthy as it is wanted since %s, which is less than the soak of %s", id, first.at, soak)
		}
	}
	return ""
}

// checkSiblings: no other Kustomization of the same source is about to take the object over, and none has it in its
// inventory.
func (w *world) checkSiblings(k *worker, obj *unstructured.Unstructured) {
	id := object.IDOf(obj)
	own := w.lately(k)
	for _, name := range w.names {
		if name == k.key.Name {
			continue
		}
		claimed, wanted := true, own.DeletionTimestamp == nil && w.sourceFor(name) == w.sourceFor(k.key.Name)
		for _, ks := range w.since(name, k.seen.siblings) {
			if ks == nil || !inventoryOf(ks).Has(id) {
				claimed = false
			}
			if ks == nil || ks.Spec.Suspend || ks.DeletionTimestamp != nil || !w.wantedBy(ks, k, id) {
				wanted = false
			}
		}
		switch {
		case claimed:
			w.fail("never deleted", "%s is deleted for %s, but %s has it in its inventory", id, k.key.Name, name)
		case wanted && w.demands(k, obj).siblings:
			w.fail("never deleted", "%s is deleted for %s, but has moved to %s", id, k.key.Name, name)
		}
	}
}

// demands are the conditions that every spec since the pass looked at it makes.
func (w *world) demands(k *worker, obj *unstructured.Unstructured) conditions {
	all := conditions{true, true, true, true, true}
	for _, ks := range w.since(k.key.Name, k.seen.self) {
		if ks != nil {
			c := policyOf(ks).conditions(obj)
			all = conditions{all.healthy && c.healthy, all.siblings && c.siblings, all.unused && c.unused, all.forgotten && c.forgotten, all.word && c.word}
		}
	}
	return all
}

// wantedBy tells whether all artifacts since the pass looked at the source have the object for another Kustomization.
func (w *world) wantedBy(ks *v1.Kustomization, k *worker, id object.ID) bool {
	for _, p := range w.sourceFor(k.key.Name).since(k.seen.source) {
		if r := w.rendered(p.digest, ks.Spec.Path); !r.fails && !r.ids.Has(id) {
			return false
		}
	}
	return true
}

// checkUsers: nothing that runs, or could start at any time, names the object, and nothing would fail to start without it.
func (w *world) checkUsers(k *worker, obj *unstructured.Unstructured) {
	id, demanded := object.IDOf(obj), w.demands(k, obj)
	if !demanded.unused {
		return
	}
	w.checkUse(k, id, "in use", w.truth.uses)
	if demanded.forgotten {
		w.checkUse(k, id, "in the history", w.truth.past)
	}
	if w.truth.uses.count[id] == 0 && w.truth.pausedAt < k.seen.started && w.probes() {
		if victim := w.wouldMiss(id); victim != "" {
			w.fail("never deleted", "%s is deleted, and %s could not start any more", id, victim)
		}
	}
}

func (w *world) checkUse(k *worker, id object.ID, what string, uses uses) {
	if uses.count[id] == 0 {
		return
	}
	looked, ok := k.seen.users[id.Namespace]
	switch {
	case !ok:
		w.fail("never deleted", "%s is %s, and nobody looked", id, what)
	case uses.lastFree[id] <= looked:
		w.fail("never deleted", "%s is %s, and was so since step %d; the look began at step %d", id, what, uses.lastFree[id], looked)
	default:
		w.stats.Races++
	}
}

// checkAmount: of one look, no more objects are deleted without a word than maxPrune lets go. What was renamed does not
// count, nor what stayed for its users.
func (w *world) checkAmount(k *worker, obj *unstructured.Unstructured) {
	ks := w.lately(k)
	if ks.DeletionTimestamp != nil || isGenerated(object.IDOf(obj)) || w.hadWord(k, obj) || w.lingered(k, object.IDOf(obj)) {
		return
	}
	k.seen.deleted++
	for _, spec := range w.since(k.key.Name, k.seen.self) {
		if spec == nil {
			return
		}
		most, limited := policyOf(spec).most(inventoryOf(spec).Len() + len(k.built))
		if !limited || k.seen.deleted <= most {
			return
		}
	}
	w.fail("never deleted", "%s is number %d of a prune that is larger than maxPrune, and nobody allowed it", object.IDOf(obj), k.seen.deleted)
}

// lingered tells whether status showed an object as kept for its users.
func (w *world) lingered(k *worker, id object.ID) bool {
	for _, ks := range w.since(k.key.Name, k.seen.started) {
		if ks == nil || ks.Status.Rollout == nil {
			continue
		}
		for _, kept := range ks.Status.Rollout.Retained {
			if kept.ID == id.Inventory() && (kept.Reason == v1.RetainedInUse || kept.Reason == v1.RetainedRevisionHistory) {
				return true
			}
		}
	}
	return false
}

// checkContents: a Namespace and a CustomResourceDefinition take nothing along.
func (w *world) checkContents(k *worker, id object.ID) {
	switch {
	case plan.IsNamespace(id):
		looked, ok := k.seen.users[id.Name]
		w.cluster.All(func(u *unstructured.Unstructured) {
			if u.GetNamespace() == id.Name && len(u.GetOwnerReferences()) == 0 && (!ok || w.truth.created[u.GetUID()] <= looked) {
				w.fail("never deleted", "%s is deleted and takes %s along", id, object.IDOf(u))
			}
		})
	case plan.IsDefinition(id):
		looked, ok := k.seen.users[""]
		w.cluster.All(func(u *unstructured.Unstructured) {
			if u.GroupVersionKind().Group == "example.com" && (!ok || w.truth.created[u.GetUID()] <= looked) {
				w.fail("never deleted", "%s is deleted and takes %s along", id, object.IDOf(u))
			}
		})
	}
}
