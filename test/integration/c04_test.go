package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

const noSelector = `apiVersion: apps/v1
kind: Deployment
metadata: {name: refused}
spec:
  template:
    spec:
      containers: [{name: main, image: registry.example/web:1}]
`

// TestC04: the first objects of a revision are created, a later one is refused, and the created ones were known to
// nobody. Here all are in the inventory before the first write, and the next revision removes what is no longer wanted.
func TestC04(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	inner := uniqueName("c04")
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", inner)
	r1 := s.push(map[string]string{
		"ns.yaml":   namespace,
		"a.yaml":    inNamespace(inner, configMap("a", "1")),
		"web.yaml":  inNamespace(inner, noSelector),
		"late.yaml": inNamespace("no-such-namespace", configMap("late", "1")),
	})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" })
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed",
		"Deployment/"+inner+"/refused", "spec.selector")
	for _, id := range []string{"_" + inner + "__Namespace", inner + "_a__ConfigMap", inner + "_refused_apps_Deployment", "no-such-namespace_late__ConfigMap"} {
		if err := inInventory(ks, id); err != nil {
			t.Error(err)
		}
	}
	if ks.Status.LastAttemptedRevision != r1 || ks.Status.LastAppliedRevision != "" {
		t.Errorf("attempted %q, applied %q, want %q and none", ks.Status.LastAttemptedRevision, ks.Status.LastAppliedRevision, r1)
	}
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}}
	s.stays(created)
	// Someone made it by other means meanwhile: it is in the inventory, but not ours.
	a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: inner, Name: "a", Labels: map[string]string{
		v1.OwnerNameLabel: "app", v1.OwnerNamespaceLabel: s.namespace}}}
	create(t, a)

	r2 := s.push(map[string]string{"ns.yaml": namespace})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, a)
	ks = s.awaitDropped("app", inner+"_a__ConfigMap")
	if got := inventoryIDs(ks); len(got) != 1 {
		t.Errorf("the inventory is %v, want only the Namespace", got)
	}
	r3 := s.push(map[string]string{"kustomization.yaml": "resources: []\n"})
	s.awaitReady("app", r3)
	eventuallyGone(t, within, created)
}

// TestC04EarlyStage: the early stage is applied, the late one refused.
func TestC04EarlyStage(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("c04") + ".example.com"
	s.push(map[string]string{"crd.yaml": widgetCRD(group), "web.yaml": noSelector})
	s.follow()
	s.deploy("app")
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "/refused")
	id := "_widgets." + group + "_apiextensions.k8s.io_CustomResourceDefinition"
	if err := inInventory(ks, id); err != nil {
		t.Error(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group}}
	s.stays(crd)

	r2 := s.push(map[string]string{"b.yaml": configMap("b", "1")})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, crd)
	s.awaitDropped("app", id)
}

// inNamespace puts the namespace into a manifest whose metadata is in one line.
func inNamespace(namespace, manifest string) string {
	return replaceOnce(manifest, "metadata: {", "metadata: {namespace: "+namespace+", ")
}

// widgetCRD defines namespaced Widgets with a free spec and a status that names conditions, so that something is
// expected to report on them.
func widgetCRD(group string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, group)
}

// reportingCRD is a widgetCRD whose schema promises a status, as those of most controllers do.
func reportingCRD(group string) string {
	return replaceOnce(widgetCRD(group), "status: {type: object, x-kubernetes-preserve-unknown-fields: true}", `status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              observedGeneration: {type: integer}
              conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}`)
}

// widget is a custom resource of widgetCRD.
func widget(group, name, size string) string {
	return fmt.Sprintf("apiVersion: %s/v1\nkind: Widget\nmetadata: {name: %s}\nspec: {size: %s}\n", group, name, size)
}
