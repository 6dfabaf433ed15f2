package simulation

import (
	"strings"

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
	ks := w.lately(k)
	if ks == nil {
		w.fail("never deleted", "%s is deleted for a Kustomization that is gone", id)
		return
	}
	if !inventoryOf(ks).Has(id) {
		w.fail("never deleted", "%s is deleted, but is not in the inventory of %s", id, name)
	}
	w.checkPolicy(k, id)
	w.checkSiblings(k, id)
	w.checkUsers(k, id)
	w.checkContents(k, id)
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
func (w *world) checkPolicy(k *worker, id object.ID) {
	specs := w.since(k.key.Name, k.seen.self)
	if specs[0] != nil && specs[0].DeletionTimestamp != nil {
		for _, ks := range specs {
			if ks != nil && !leavesAll(ks) {
				return
			}
		}
		w.fail("never deleted", "%s is deleted, but the deletion policy leaves all", id)
		return
	}
	why := "nothing was looked at"
	for _, ks := range specs {
		for _, p := range w.sourceFor(k.key.Name).since(k.seen.source) {
			if why = w.forbids(ks, p, id); why == "" {
				return
			}
		}
	}
	w.fail("never deleted", "%s is deleted for %s: %s", id, k.key.Name, why)
}

func leavesAll(ks *v1.Kustomization) bool {
	policy := ks.Flux().GetDeletionPolicy()
	return ks.Spec.Suspend || policy == fluxv1.DeletionPolicyOrphan || (policy == fluxv1.DeletionPolicyMirrorPrune && !ks.Spec.Prune)
}

// forbids says why a spec and an artifact together forbid a deletion; empty if they don't.
func (w *world) forbids(ks *v1.Kustomization, p publication, id object.ID) string {
	if ks == nil {
		return "there is no Kustomization"
	}
	r := w.rendered(p.digest, ks.Spec.Path)
	switch {
	case ks.Spec.Suspend:
		return "it is suspended"
	case !ks.Spec.Prune:
		return "pruning is off"
	case r.fails:
		return p.revision + " does not build"
	case r.ids.Has(id):
		return p.revision + " has it"
	case r.empty == build.EmptyUnexplained:
		return p.revision + " is empty, and nobody said that it shall be"
	case leftWhileOff(ks, id):
		return "it left the source while pruning was off"
	case ks.Spec.Rollout == nil || ks.Spec.Rollout.PruneOrder != v1.PruneAfterApply:
		return w.unhealthy(r)
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

// unhealthy names a workload of a build that never ran as the build wants it.
func (w *world) unhealthy(r render) string {
	for _, want := range r.objects() {
		if want.GetKind() != "Deployment" && want.GetKind() != "Job" {
			continue
		}
		id := object.IDOf(want)
		if _, ok := w.truth.healthy[id][templateOf(want)]; !ok {
			return id.String() + " was never healthy as it is wanted"
		}
	}
	return ""
}

// checkSiblings: no other Kustomization of the same source is about to take the object over, and none has it in its
// inventory.
func (w *world) checkSiblings(k *worker, id object.ID) {
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
		case wanted && !isAfterApply(own):
			w.fail("never deleted", "%s is deleted for %s, but has moved to %s", id, k.key.Name, name)
		}
	}
}

func isAfterApply(ks *v1.Kustomization) bool {
	return ks.Spec.Rollout != nil && ks.Spec.Rollout.PruneOrder == v1.PruneAfterApply
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

// checkUsers: nothing that runs, or could start at any time, names the object.
func (w *world) checkUsers(k *worker, id object.ID) {
	ks := w.lately(k)
	if isAfterApply(ks) || (ks.Spec.Rollout != nil && ks.Spec.Rollout.Retain == v1.RetainNone) || w.truth.users[id] == 0 {
		return
	}
	looked, ok := k.seen.users[id.Namespace]
	switch {
	case !ok:
		w.fail("never deleted", "%s is in use, and nobody looked", id)
	case w.truth.lastFree[id] <= looked:
		w.fail("never deleted", "%s is in use, and was so since step %d; the look began at step %d", id, w.truth.lastFree[id], looked)
	default:
		w.stats.Races++
	}
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
