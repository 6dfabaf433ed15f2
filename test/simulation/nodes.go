package simulation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// drain evicts a pod, or restarts its containers, which then need their configuration again.
func (w *world) drain() string {
	var pods []*unstructured.Unstructured
	w.cluster.Each(schemaKind("", "Pod"), func(u *unstructured.Unstructured) { pods = append(pods, u) })
	if len(pods) == 0 {
		return ""
	}
	id := object.IDOf(pick(w.rng, pods))
	if chance(w.rng, 2) {
		w.cluster.Delete("node-drain", id)
		return "evicted: " + id.String()
	}
	w.cluster.Edit("node", id, func(u *unstructured.Unstructured) {
		if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase == "Running" {
			u.Object["status"] = map[string]any{"phase": "Pending"}
		}
	})
	return "restarted: " + id.String()
}

// fill takes all pods away, and the room for new ones, for a while: what they need is then known from what makes them alone.
func (w *world) fill() string {
	w.cluster.Full = !w.cluster.Full
	if !w.cluster.Full {
		return "there is room for pods again"
	}
	w.cluster.Each(schemaKind("", "Pod"), func(u *unstructured.Unstructured) { w.cluster.Delete("node-drain", object.IDOf(u)) })
	return "all pods are evicted, and there is no room for new ones"
}

// autoscale sets the replicas of a workload whose source does not say how many, also to none and back.
func (w *world) autoscale() string {
	var scaled []object.ID
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		w.cluster.Each(schemaKind("apps", kind), func(u *unstructured.Unstructured) {
			if u.GetLabels()[scaledLabel] != "" {
				scaled = append(scaled, object.IDOf(u))
			}
		})
	}
	if len(scaled) == 0 {
		return ""
	}
	id, n := pick(w.rng, scaled), int64(w.rng.IntN(4))
	w.cluster.Edit("autoscaler", id, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, n, "spec", "replicas") // the path is a map in every workload
	})
	return fmt.Sprintf("the autoscaler wants %d of %s", n, id)
}

// fire is the time of a CronJob.
func (w *world) fire() string {
	var timers []object.ID
	w.cluster.Each(schemaKind("batch", "CronJob"), func(u *unstructured.Unstructured) { timers = append(timers, object.IDOf(u)) })
	if len(timers) == 0 {
		return ""
	}
	id := pick(w.rng, timers)
	if !w.cluster.Fire(id) {
		return ""
	}
	return "it is time for " + id.String()
}

// unblock deletes the pods of a StatefulSet that waits for one which never gets ready, as people have to: also those that run an
// older revision, since the ones before them come back at it, and its configuration may be gone by hand.
func (w *world) unblock() {
	var blocked []object.ID
	w.cluster.Each(schemaKind("", "Pod"), func(u *unstructured.Unstructured) {
		refs := u.GetOwnerReferences()
		if len(refs) == 0 || refs[0].Kind != "StatefulSet" || hasCondition(u, "Ready") {
			return
		}
		blocked = append(blocked, object.ID{Group: "apps", Kind: "StatefulSet", Namespace: u.GetNamespace(), Name: refs[0].Name})
	})
	for _, set := range blocked {
		w.cluster.Each(schemaKind("", "Pod"), func(u *unstructured.Unstructured) {
			if refs := u.GetOwnerReferences(); len(refs) > 0 && refs[0].Kind == "StatefulSet" && refs[0].Name == set.Name && u.GetNamespace() == set.Namespace {
				w.cluster.Delete("someone", object.IDOf(u))
			}
		})
		w.say("someone deletes the pods of the blocked %s", set)
	}
}
