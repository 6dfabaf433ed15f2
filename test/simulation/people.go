package simulation

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// touchKustomization changes a spec or what annotations say about it.
func (w *world) touchKustomization() string {
	name := pick(w.rng, w.names)
	return w.edited(kustomizationID(name), func(u *unstructured.Unstructured) {
		spec, _ := u.Object["spec"].(map[string]any)
		toggle := func(field string) { on, _ := spec[field].(bool); spec[field] = !on }
		switch w.rng.IntN(10) {
		case 0:
			toggle("prune")
		case 1:
			toggle("suspend")
		case 2:
			toggle("wait")
		case 3, 4:
			spec["rollout"] = w.drawRollout()
		case 5, 6:
			w.annotatePolicy(u)
		case 7, 8: // and in the end they put things in order
			spec["prune"], spec["suspend"] = true, false
		case 9:
			spec["deletionPolicy"] = pick(w.rng, []string{"MirrorPrune", "Delete", "WaitForTermination", "Orphan"})
		}
	})
}

// What people may ask for; empty for nothing.
var (
	orders    = []string{"", "", "", "AfterHealthy", "AfterHealthy", "AfterApply"}
	retains   = []string{"", "", "InUse", "InUse", "History", "History", "None"}
	maxPrunes = []string{"", "", "", "0", "1", "2", "30%"}
	soaks     = []string{"", "", "", "1m0s", "5m0s"}
	times     = []string{"Immediate", "WhenHealthy", "WhenUnused", "Confirm"}
	ruleKinds = []string{"ConfigMap", "ConfigMap/app0", "Secret", "Deployment", "StatefulSet", "Job", "ServiceAccount"}
)

// drawRollout is a spec.rollout.
func (w *world) drawRollout() map[string]any {
	rollout := map[string]any{}
	for field, value := range map[string]string{"pruneOrder": pick(w.rng, orders), "retain": pick(w.rng, retains), "soak": pick(w.rng, soaks)} {
		if value != "" {
			rollout[field] = value
		}
	}
	w.drawRecovery(rollout)
	if most := pick(w.rng, maxPrunes); most != "" {
		rollout["maxPrune"] = most
		if n, err := strconv.ParseInt(most, 10, 64); err == nil {
			rollout["maxPrune"] = n
		}
	}
	if chance(w.rng, 3) {
		kind, name, _ := strings.Cut(pick(w.rng, ruleKinds), "/")
		rule := map[string]any{"kind": kind, "when": pick(w.rng, times)}
		if name != "" {
			rule["name"] = name
		}
		rollout["prune"] = []any{rule}
	}
	return rollout
}

// annotatePolicy says the same in annotations, and now and then what nobody understands.
func (w *world) annotatePolicy(u *unstructured.Unstructured) {
	a := u.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	if w.rollsBack && chance(w.rng, 3) {
		w.annotateRecovery(a)
		u.SetAnnotations(a)
		return
	}
	key := pick(w.rng, policyAnnotations)
	value := map[string]string{v1.AnnotationPruneOrder: pick(w.rng, orders), v1.AnnotationRetain: pick(w.rng, append(retains, "Some")),
		v1.AnnotationMaxPrune: pick(w.rng, maxPrunes), v1.AnnotationSoak: pick(w.rng, soaks), v1.AnnotationPrune: pick(w.rng, ruleKinds) + "=" + pick(w.rng, times)}[key]
	if a[key] != "" || value == "" {
		delete(a, key)
	} else {
		a[key] = value
	}
	u.SetAnnotations(a)
}

var policyAnnotations = []string{v1.AnnotationPruneOrder, v1.AnnotationRetain, v1.AnnotationMaxPrune, v1.AnnotationSoak, v1.AnnotationPrune}

// confirm is a person who repeats a digest: the one that is shown, or one that was shown before.
func (w *world) confirm() string {
	id := kustomizationID(pick(w.rng, w.names))
	digest := w.shown(id.Name)
	if len(w.digests) > 0 && chance(w.rng, 3) {
		digest = pick(w.rng, w.digests)
	}
	if digest == "" {
		return ""
	}
	w.digests = append(w.digests, digest)
	w.edited(id, func(u *unstructured.Unstructured) {
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[v1.AnnotationConfirmPrune] = digest
		u.SetAnnotations(a)
	})
	return "someone confirms " + digest + " for " + id.Name
}

// shown is the digest of what waits for a person; empty for nothing.
func (w *world) shown(name string) string {
	if ks := w.kustomization(name); ks != nil && ks.Status.Rollout != nil && ks.Status.Rollout.PendingPrune != nil {
		return ks.Status.Rollout.PendingPrune.Digest
	}
	return ""
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
		if owner == "" || len(u.GetOwnerReferences()) > 0 {
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
	switch w.rng.IntN(15) {
	case 0, 1:
		if w.cluster.Delete("someone", id) {
			return "someone deletes " + id.String()
		}
	case 2:
		return annotate(v1.ControlPrefix+"prune", "disabled")
	case 3:
		return annotate("note", "hello")
	case 12:
		return annotate(v1.AnnotationPrune, pick(w.rng, append(times, "Whenever")))
	case 13:
		return w.toggleWorkload(id)
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
			case "Deployment", "StatefulSet":
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

// toggleWorkload pauses or suspends something that runs, or lets it go on.
func (w *world) toggleWorkload(id object.ID) string {
	field := map[string]string{"Deployment": "paused", "Job": "suspend", "CronJob": "suspend"}[id.Kind]
	if field == "" {
		return ""
	}
	return w.edited(id, func(u *unstructured.Unstructured) {
		on, _, _ := unstructured.NestedBool(u.Object, "spec", field)
		_ = unstructured.SetNestedField(u.Object, !on, "spec", field) // the path is a map in every workload
	})
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

// undo is `kubectl rollout undo`: the template of an older revision becomes the workload's.
func (w *world) undo(id object.ID) string {
	revisions, path := schemaKind("apps", "ControllerRevision"), []string{"data", "spec", "template"}
	switch id.Kind {
	case "Deployment":
		revisions, path = schemaKind("apps", "ReplicaSet"), []string{"spec", "template"}
	case "StatefulSet", "DaemonSet":
	default:
		return ""
	}
	var template map[string]any
	w.cluster.Each(revisions, func(u *unstructured.Unstructured) {
		if refs := u.GetOwnerReferences(); len(refs) > 0 && refs[0].Name == id.Name && refs[0].Kind == id.Kind && u.GetNamespace() == id.Namespace && chance(w.rng, 2) {
			template, _, _ = unstructured.NestedMap(u.Object, path...)
		}
	})
	if template == nil {
		return ""
	}
	delete(template, "$patch")
	return w.edited(id, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedMap(u.Object, template, "spec", "template") // the path is a map in every workload
	})
}
