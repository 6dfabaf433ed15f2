package integration

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// growingCRD is a widgetCRD whose sizes can't shrink, with a label.
func growingCRD(group, label string) string {
	crd := replaceOnce(widgetCRD(group), "spec: {type: object, x-kubernetes-preserve-unknown-fields: true}", `spec:
            type: object
            properties: {size: {type: integer}}
            x-kubernetes-validations: [{rule: "self.size >= oldSelf.size", message: "a widget can't shrink"}]`)
	return replaceOnce(crd, "metadata: {", "metadata: {labels: {step: \""+label+"\"}, ")
}

// TestRollbackLeavesWhatIsNewer: a definition is not taken back, nor is what the API server refuses to change back. Both are named,
// and everything else comes back. What may be forced is made anew, backwards as forwards.
func TestRollbackLeavesWhatIsNewer(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("grow") + ".example.com"
	revision := func(step, image string) map[string]string {
		files := webApp(step, image)
		files["kustomization.yaml"] = strings.Replace(files["kustomization.yaml"], "[web.yaml]", "[web.yaml, crd.yaml, widget.yaml, fixed.yaml]", 1)
		files["crd.yaml"] = growingCRD(group, step)
		files["widget.yaml"] = widget(group, "gadget", step)
		files["fixed.yaml"] = replaceOnce(configMap("fixed", step), "metadata: {", "metadata: {annotations: {kustomize.toolkit.fluxcd.io/force: enabled}, ") +
			"immutable: true\n"
		return files
	}
	r1 := s.push(revision("1", goodImage))
	s.follow()
	s.deploy("web", rollsBack(30*time.Second), unwaited, healthOf("web"))
	s.awaitReady("web", r1)
	s.awaitStored("web", r1, 1)

	r2 := s.push(revision("2", missingImage))
	ks := s.awaitMessage("web", "Ready", metav1.ConditionFalse, v1.ReasonRolledBack, r2, "left as it is")
	left := strings.Join(ks.Status.Rollout.LeftAsIs, "\n")
	for _, want := range []string{"CustomResourceDefinition/widgets." + group + ": a definition is not taken back", "Widget/" + s.namespace + "/gadget: the API server refuses the change"} {
		if !strings.Contains(left, want) {
			t.Errorf("left as it is are\n%s\nwithout %q", left, want)
		}
	}
	gadget := &unstructured.Unstructured{}
	gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"})
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "gadget"}, gadget); err != nil {
		t.Fatal(err)
	}
	if size, _, err := unstructured.NestedInt64(gadget.Object, "spec", "size"); err != nil || size != 2 {
		t.Errorf("the widget has the size %d, %v", size, err)
	}
	fixed := s.cm("fixed")
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(fixed), fixed); err != nil || fixed.Data["k"] != "1" {
		t.Errorf("the immutable ConfigMap that may be forced has %v, %v", fixed.Data, err)
	}
}

// TestRollbackElsewhere: what runs on the cluster of a kubeconfig is rolled back there, with the rights of that kubeconfig, from
// what is stored beside the Kustomization.
func TestRollbackElsewhere(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.admin("far")
	create(t, s.secret("remote", "value", s.kubeConfigOf("far")))
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", on("remote", ""), rollsBack(30*time.Second), unwaited, healthOf("web"))
	s.awaitReady("web", r1)
	s.awaitStored("web", r1, 1)
	r2 := s.push(webApp("2", missingImage))
	s.awaitMessage("web", "Ready", metav1.ConditionFalse, v1.ReasonRolledBack, r2, "rolled back to "+r1)
	r3 := s.push(webApp("3", goodImage))
	s.awaitReady("web", r3)
}
