package integration

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC23: after a CRD is gone, pruning its objects failed for ever with an unknown kind. An object whose kind is served
// by nothing is Unverified at first, and counts as gone when complete discovery still lacks the kind an interval later.
func TestC23(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("c23") + ".example.com"
	r1 := s.push(map[string]string{"crd.yaml": widgetCRD(group), "w.yaml": widget(group, "w", "1"), "c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("app", unwaited, func(ks *v1.Kustomization) { ks.Spec.Interval.Duration = 8 * time.Second })
	s.awaitReady("app", r1)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group}}
	w := s.id(group+"/Widget", "w")

	// While the custom resource is in Git, so is the need for its definition.
	r2 := s.push(map[string]string{"w.yaml": widget(group, "w", "1"), "c.yaml": configMap("c", "1")})
	s.awaitReady("app", r2)
	s.awaitRetained("app", "_"+crd.Name+"_apiextensions.k8s.io_CustomResourceDefinition", v1.RetainedProtected)
	s.stays(crd)

	if err := kube.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, crd)
	r3 := s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.awaitReady("app", r3)
	s.awaitRetained("app", w, v1.RetainedUnverified)
	s.awaitDropped("app", w)
	s.awaitDropped("app", "_"+crd.Name+"_apiextensions.k8s.io_CustomResourceDefinition")
	s.stays(s.cm("c"))
}

// TestC23TogetherInOneRevision: the custom resource goes first and is awaited, its definition last.
func TestC23TogetherInOneRevision(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("c23") + ".example.com"
	held := replaceOnce(widget(group, "w", "1"), "{name: w}", "{name: w, finalizers: [example.com/operator]}")
	r1 := s.push(map[string]string{"crd.yaml": widgetCRD(group), "w.yaml": held, "c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", r1)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group}}
	s.push(map[string]string{"kustomization.yaml": "resources: []\n"})
	kept := s.awaitRetained("app", s.id(group+"/Widget", "w"), v1.RetainedTerminating)
	if !containsAll(kept.Message, []string{"example.com/operator"}) {
		t.Errorf("the message is %q, want it to name the finalizer", kept.Message)
	}
	s.stays(crd, s.cm("c"))
	object := newWidget(group, s.namespace, "w")
	s.removeFinalizers(object)
	eventuallyGone(t, within, crd)
	eventuallyGone(t, within, s.cm("c"))
}
