package simulation

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// advance takes one step: one request of a controller, one write of the cluster's own controllers, one event of the
// environment, or a move of the clock.
func (w *world) advance() {
	w.step++
	var running, due []*worker
	w.each(func(k *worker) {
		switch {
		case k.running:
			running = append(running, k)
		case !k.due.IsZero() && !k.due.After(w.now):
			due = append(due, k)
		}
	})
	n := w.rng.IntN(100)
	switch {
	case n < 3:
		w.happen()
	case n < 4:
		w.disturb()
	case n < 24:
		if done := w.cluster.Work(w.rng.Uint64()); done != "" {
			w.say("%s", done)
			return
		}
		w.tick(running, due)
	case n < 40 && len(due) > 0:
		pick(w.rng, due).begin()
	default:
		w.tick(running, due)
	}
	if w.step%256 == 0 {
		w.checkOrphans()
	}
}

// tick lets a controller go on, or time pass.
func (w *world) tick(running, due []*worker) {
	switch {
	case len(running) > 0:
		w.serve(pick(w.rng, running))
	case len(due) > 0:
		pick(w.rng, due).begin()
	default:
		d := time.Duration(1+w.rng.IntN(20)) * time.Second
		w.now = w.now.Add(d)
		w.say("%s pass", d)
	}
}

func (k *worker) begin() {
	k.world.say("%s begins a pass", k.name)
	k.start()
}

// serve decides about the request that a worker waits with.
func (w *world) serve(k *worker) {
	f := w.fateOf(k)
	w.say("%s: %s %s", k.name, k.request, f.fault)
	w.stats.Requests++
	k.advance(f)
	if !k.running && !k.dead {
		w.say("%s ends its pass: again after %s, %v", k.name, k.result.RequeueAfter, k.err)
	}
	if f.crash {
		w.killProcess(k.process)
		w.startProcess()
		w.say("the process died after that request; another one starts")
	}
}

// has tells whether the run has a kind of fault.
func (w *world) has(f fault) bool {
	for _, other := range w.options.Faults {
		if other == f {
			return true
		}
	}
	return false
}

// disturb is a fault of the world.
func (w *world) disturb() {
	kind := pick(w.rng, []fault{crash, handover, clockJump, sourceRewind, webhookDenial})
	if !w.has(kind) {
		return
	}
	switch kind {
	case crash:
		w.killProcess(pick(w.rng, w.processes))
		if len(w.processes) == 0 {
			w.startProcess()
		}
	case handover:
		if len(w.processes) > 1 {
			w.killProcess(w.processes[0])
			break
		}
		w.processes[0].superseded = true
		w.startProcess()
	case clockJump:
		w.now = w.now.Add(time.Duration(w.rng.IntN(3600)-600) * time.Second)
	case sourceRewind:
		s := pick(w.rng, w.sources)
		w.offer(s, pick(w.rng, s.published))
	case webhookDenial:
		kind := pick(w.rng, []string{"ConfigMap", "Secret", "Deployment", "Namespace", "Widget"})
		w.denied[kind] = !w.denied[kind]
	}
	w.stats.Faults[kind]++
	w.say("disturbed: %s", kind)
}

// happen is something that people or nodes do.
func (w *world) happen() {
	what := ""
	switch w.rng.IntN(16) {
	case 0, 1, 2, 3, 4:
		s := pick(w.rng, w.sources)
		old := s.newest().tree
		if chance(w.rng, 6) {
			old = pick(w.rng, s.published).tree // a revert
		}
		w.publish(s, old.change(w.rng, w.pathsOf(s), w.counter))
		what = fmt.Sprintf("%s has %s: %+v", s.name, s.newest().revision, s.newest().tree)
	case 5, 6, 7:
		what = w.drain()
	case 8:
		what = w.touchKustomization()
	case 9:
		what = w.removeKustomization()
	default:
		what = w.touchObject()
	}
	if what != "" {
		w.stats.Events++
		w.say("%s", what)
	}
}

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

// touchKustomization changes a spec.
func (w *world) touchKustomization() string {
	name := pick(w.rng, w.names)
	return w.edited(kustomizationID(name), func(u *unstructured.Unstructured) {
		spec, _ := u.Object["spec"].(map[string]any)
		toggle := func(field string) { on, _ := spec[field].(bool); spec[field] = !on }
		switch w.rng.IntN(7) {
		case 0, 1:
			toggle("prune")
		case 2, 3:
			toggle("suspend")
		case 4:
			toggle("wait")
		case 5:
			spec["rollout"] = map[string]any{"pruneOrder": pick(w.rng, []string{"AfterHealthy", "AfterHealthy", "AfterApply"}),
				"retain": pick(w.rng, []string{"InUse", "InUse", "None"})}
		case 6:
			spec["deletionPolicy"] = pick(w.rng, []string{"MirrorPrune", "Delete", "WaitForTermination", "Orphan"})
		}
	})
}

func (w *world) edited(id object.ID, change func(*unstructured.Unstructured)) string {
	if !w.cluster.Edit("someone", id, change) {
		return ""
	}
	return "someone edits " + id.String()
}

// removeKustomization deletes a Kustomization, or makes one again that is gone.
func (w *world) removeKustomization() string {
	name := pick(w.rng, w.names)
	if w.cluster.Get(kustomizationID(name)) == nil {
		w.createKustomization(name)
		return "someone creates Kustomization " + name
	}
	if chance(w.rng, 3) && w.cluster.Delete("someone", kustomizationID(name)) {
		return "someone deletes Kustomization " + name
	}
	return ""
}

// touchObject is a person at an object of the cluster, ours or not.
func (w *world) touchObject() string {
	var all, stale []object.ID
	w.cluster.All(func(u *unstructured.Unstructured) {
		id, owner := object.IDOf(u), ownerOf(u)
		if owner == "" || id.Kind == "Pod" || id.Kind == "ReplicaSet" {
			return
		}
		all = append(all, id)
		name := strings.TrimPrefix(owner, fluxNamespace+"/")
		if !w.rendered(w.sourceFor(name).newest().digest, "./"+name).ids.Has(id) {
			stale = append(stale, id)
		}
	})
	if len(all) == 0 {
		return ""
	}
	if len(stale) > 0 && chance(w.rng, 2) {
		all = stale // where it hurts
	}
	id := pick(w.rng, all)
	annotate := func(key, value string) string {
		return w.edited(id, func(u *unstructured.Unstructured) {
			a := u.GetAnnotations()
			if a == nil {
				a = map[string]string{}
			}
			if a[key] != "" {
				delete(a, key)
			} else {
				a[key] = value
			}
			u.SetAnnotations(a)
		})
	}
	switch w.rng.IntN(12) {
	case 0, 1:
		if w.cluster.Delete("someone", id) {
			return "someone deletes " + id.String()
		}
	case 2:
		return annotate(v1.ControlPrefix+"prune", "disabled")
	case 3:
		return annotate("note", "hello")
	case 4:
		return w.edited(id, func(u *unstructured.Unstructured) {
			labels := u.GetLabels()
			delete(labels, v1.OwnerNameLabel)
			delete(labels, v1.OwnerNamespaceLabel)
			u.SetLabels(labels)
		})
	case 5:
		return w.edited(id, func(u *unstructured.Unstructured) {
			if len(u.GetFinalizers()) > 0 {
				u.SetFinalizers(nil)
			} else if id.Kind != v1.KustomizationKind {
				u.SetFinalizers([]string{"example.com/hold"})
			}
		})
	case 6, 7:
		return w.edited(id, func(u *unstructured.Unstructured) {
			switch id.Kind {
			case "ConfigMap":
				_ = unstructured.SetNestedField(u.Object, "by hand", "data", "version") // the path is a map in every ConfigMap here
			case "Deployment":
				_ = unstructured.SetNestedField(u.Object, int64(w.rng.IntN(3)), "spec", "replicas") // likewise
			}
		})
	case 8:
		return w.debugPod(id)
	case 9:
		return w.squat()
	case 10, 11:
		return w.undo(id)
	}
	return ""
}

// debugPod is a pod of somebody else that needs an object of ours, or the end of one.
func (w *world) debugPod(id object.ID) string {
	pod := object.ID{Kind: "Pod", Namespace: appsNamespace, Name: "debug"}
	if w.cluster.Get(pod) != nil {
		w.cluster.Delete("someone", pod)
		return "someone deletes the debug pod"
	}
	if id.Kind != "ConfigMap" || id.Namespace != appsNamespace {
		return ""
	}
	w.cluster.Create("someone", thing("v1", "Pod", appsNamespace, "debug", map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "main", "image": "shell:1", "envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": id.Name}}}}}}}))
	return "someone looks at " + id.String() + " from a pod"
}

// squat takes a name that a later revision may want, or puts something foreign into a namespace of ours.
func (w *world) squat() string {
	name, namespace := configName(fmt.Sprintf("app%d", w.rng.IntN(3)), w.counter+w.rng.IntN(2)), appsNamespace
	if chance(w.rng, 2) {
		name, namespace = "foreign", teamNamespace
	}
	if w.cluster.Create("someone", thing("v1", "ConfigMap", namespace, name, map[string]any{"data": map[string]any{"by": "hand"}})) {
		return "someone creates ConfigMap " + namespace + "/" + name
	}
	return ""
}

// undo is `kubectl rollout undo`: the template of an older ReplicaSet becomes the Deployment's.
func (w *world) undo(id object.ID) string {
	if id.Kind != "Deployment" {
		return ""
	}
	var template any
	w.cluster.Each(schemaKind("apps", "ReplicaSet"), func(u *unstructured.Unstructured) {
		if refs := u.GetOwnerReferences(); len(refs) > 0 && refs[0].Name == id.Name && u.GetNamespace() == id.Namespace && chance(w.rng, 2) {
			template, _, _ = unstructured.NestedFieldCopy(u.Object, "spec", "template")
		}
	})
	if template == nil {
		return ""
	}
	return w.edited(id, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, template, "spec", "template") // the path is a map in every Deployment
	})
}
