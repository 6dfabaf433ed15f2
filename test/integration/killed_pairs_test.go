package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionapi "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// kill -9 between any two writes that differ in what they are about. A webhook holds the second write of each pair until the
// process is dead. At that moment nothing may be orphaned, and after a restart the end is that of a rollout that nothing cut off.
func TestKilledBetweenWrites(t *testing.T) {
	t.Parallel()
	k := &killing{scenario: newScenario(t), group: uniqueName("pairs") + ".example.com"}
	k.gate = k.newGate()

	// The first revision, killed at each of its writes in turn: every restart comes one write further.
	k.push(k.files(1))
	k.follow()
	k.deploy("app")
	k.at("finalizer -> Record", isStatus(func(*v1.Kustomization) bool { return true }))
	k.at("Record -> first write", isWrite(admissionapi.Create, "customresourcedefinitions", "widgets."+k.group))
	k.at("definitions -> accounts", isWrite(admissionapi.Create, "serviceaccounts", "bot"))
	k.at("accounts -> the rest", isWrite(admissionapi.Create, "configmaps", "a-1"))
	k.at("two writes of a stage", isWrite(admissionapi.Create, "configmaps", "b-1"))
	k.at("last write -> status", isStatus(func(ks *v1.Kustomization) bool { return ks.Status.Rollout.Phase != v1.PhaseApplying }))
	k.endsWith(1)

	k.push(k.files(2))
	k.at("two deletions", nth(2, isWrite(admissionapi.Delete, "configmaps", "a-1", "b-1")))
	k.endsWith(2)

	k.push(k.files(3))
	k.at("last deletion -> status", isStatus(func(ks *v1.Kustomization) bool { return inInventory(ks, k.cmID("a-2")) != nil }))
	k.endsWith(3)

	k.push(k.files(4))
	k.at("deletion that makes way -> successor", isWrite(admissionapi.Create, "configmaps", "way-4"), k.cm("way-3"))
	k.endsWith(4)

	k.push(k.files(5))
	k.at("deletion -> recreation", isWrite(admissionapi.Create, "configmaps", "fixed"), k.cm("fixed"))
	k.endsWith(5)

	ks := k.mustGet("app")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	k.at("two deletions while finalizing", nth(2, isWrite(admissionapi.Delete, "configmaps", "a-5", "b-5")))
	k.at("last deletion -> finalizer", func(r *admissionapi.AdmissionRequest) bool {
		written := kustomizationOf(r)
		return written != nil && r.SubResource == "" && written.DeletionTimestamp != nil && len(written.Finalizers) == 0
	}, k.cm("a-5"), k.cm("b-5"), k.cm("fixed"), k.cm("way-5"))
	startProcess(t, k.namespace, env.Kubeconfig)
	eventuallyGone(t, within, ks)
	if left := k.owned(); len(left) > 0 {
		t.Errorf("left on the cluster: %v", left)
	}
}

// killing is a scenario whose controller is killed again and again.
type killing struct {
	*scenario
	gate  *gate
	group string
}

// files are a revision with a definition and its custom resource, an account, two ConfigMaps of which every revision has new ones,
// one that has to go before its successor comes, and one that can only be recreated.
func (k *killing) files(revision int) map[string]string {
	named := func(name string) string { return configMap(fmt.Sprintf("%s-%d", name, revision), "1") }
	way := fmt.Sprintf("{name: way-%d", revision)
	return map[string]string{
		"crd.yaml": widgetCRD(k.group),
		"w.yaml":   widget(k.group, "w", "1") + "status: {observedGeneration: 1}\n",
		"sa.yaml":  "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: bot}\n",
		"a.yaml":   named("a"),
		"b.yaml":   named("b"),
		"way.yaml": replaceOnce(named("way"), way, way+", annotations: {"+v1.AnnotationPrune+": Immediate}"),
		"fixed.yaml": replaceOnce(configMap("fixed", fmt.Sprint(revision/5)), "{name: fixed}",
			"{name: fixed, annotations: {kustomize.toolkit.fluxcd.io/force: enabled}}") + "immutable: true\n",
	}
}

// at runs the controller until it sends a write, and kills it there. The objects have to be gone by then.
func (k *killing) at(pair string, write func(*admissionapi.AdmissionRequest) bool, gone ...client.Object) {
	k.t.Helper()
	k.gate.holdNext(write)
	h := startProcess(k.t, k.namespace, env.Kubeconfig)
	k.gate.awaitHeld(pair)
	for _, object := range gone {
		if err := isGone(k.t.Context(), object); err != nil {
			k.t.Errorf("%s: %v", pair, err)
		}
	}
	h.kill()
	k.gate.release()
	ks := k.mustGet("app")
	for id := range k.owned() {
		if err := inInventory(ks, id); err != nil {
			k.t.Errorf("%s: an orphan: %v", pair, err)
		}
	}
}

// endsWith runs the controller once more, until the end of a revision.
func (k *killing) endsWith(revision int) {
	k.t.Helper()
	h := startProcess(k.t, k.namespace, env.Kubeconfig)
	defer h.kill()
	want := []string{
		"_widgets." + k.group + "_apiextensions.k8s.io_CustomResourceDefinition", k.id(k.group+"/Widget", "w"), k.id("ServiceAccount", "bot"),
		k.cmID("fixed"), k.cmID(fmt.Sprintf("a-%d", revision)), k.cmID(fmt.Sprintf("b-%d", revision)), k.cmID(fmt.Sprintf("way-%d", revision)),
	}
	slices.Sort(want)
	k.await("app", fmt.Sprintf("as after revision %d", revision), func(ks *v1.Kustomization) error {
		if err := conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue); err != nil {
			return err
		}
		if have := slices.Sorted(maps.Keys(inventoryIDs(ks))); !slices.Equal(have, want) {
			return fmt.Errorf("the inventory is %v", have)
		}
		return nil
	})
	if have := slices.Sorted(maps.Keys(k.owned())); !slices.Equal(have, want) {
		k.t.Errorf("after revision %d there are %v, want %v", revision, have, want)
	}
}

// owned are the ids of all objects with the labels of the Kustomization.
func (k *killing) owned() map[string]bool {
	k.t.Helper()
	ids := map[string]bool{}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "ConfigMap"}, {Group: k.group, Version: "v1", Kind: "Widget"},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		labels := client.MatchingLabels{v1.OwnerNameLabel: "app", v1.OwnerNamespaceLabel: k.namespace}
		err := kube.List(k.t.Context(), list, labels)
		if err != nil && gvk.Group == k.group {
			continue // not defined yet
		}
		if err != nil {
			k.t.Fatal(err)
		}
		for _, item := range list.Items {
			ids[strings.Join([]string{item.Namespace, item.Name, gvk.Group, gvk.Kind}, "_")] = true
		}
	}
	return ids
}

// isWrite tells of an operation on a resource, on one of the names.
func isWrite(operation admissionapi.Operation, resource string, names ...string) func(*admissionapi.AdmissionRequest) bool {
	return func(r *admissionapi.AdmissionRequest) bool {
		return r.Operation == operation && r.Resource.Resource == resource && slices.Contains(names, r.Name)
	}
}

// isStatus tells of a write of the status of a Kustomization as it is then.
func isStatus(wanted func(*v1.Kustomization) bool) func(*admissionapi.AdmissionRequest) bool {
	return func(r *admissionapi.AdmissionRequest) bool {
		ks := kustomizationOf(r)
		return ks != nil && r.SubResource == "status" && wanted(ks)
	}
}

// kustomizationOf is what a write makes of a Kustomization; nil for other writes.
func kustomizationOf(r *admissionapi.AdmissionRequest) *v1.Kustomization {
	ks := &v1.Kustomization{}
	if r.Resource.Resource != "kustomizations" || json.Unmarshal(r.Object.Raw, ks) != nil {
		return nil
	}
	return ks
}

// nth tells of the n-th wanted write.
func nth(n int, wanted func(*admissionapi.AdmissionRequest) bool) func(*admissionapi.AdmissionRequest) bool {
	return func(r *admissionapi.AdmissionRequest) bool {
		if wanted(r) {
			n--
			return n == 0
		}
		return false
	}
}
