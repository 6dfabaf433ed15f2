package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC34StatusOfAnOldGeneration: an object whose status speaks of the generation before is not healthy, so that nothing
// that it may still need is pruned until its controller has seen the new one.
func TestC34StatusOfAnOldGeneration(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("c34") + ".example.com"
	r1 := s.push(map[string]string{"crd.yaml": widgetCRD(group), "w.yaml": widget(group, "w", "1"), "old.yaml": configMap("old", "1")})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	w := newWidget(group, s.namespace, "w")
	s.observed(w, 1)

	r2 := s.push(map[string]string{"crd.yaml": widgetCRD(group), "w.yaml": widget(group, "w", "2")})
	s.awaitAttempt("app", r2)
	s.awaitRetained("app", s.cmID("old"), v1.RetainedAwaitingHealth)
	ks := s.await("app", "verifying", phaseIs(v1.PhaseVerifying))
	if c := ks.Status.Rollout.Culprits; len(c) != 1 || !strings.Contains(c[0].Message, "generation is 2, but latest observed generation is 1") {
		t.Errorf("the culprits are %v, want one about the generation", c)
	}
	s.request("app")
	s.stays(s.cm("old"))
	s.observed(w, 2)
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm("old"))
}

// observed writes the status that a controller would write for a generation.
func (s *scenario) observed(w *unstructured.Unstructured, generation int64) {
	s.t.Helper()
	if err := kube.Get(s.t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
		s.t.Fatal(err)
	}
	w.Object["status"] = map[string]any{
		"observedGeneration": generation,
		"conditions":         []any{map[string]any{"type": "Ready", "status": "True"}},
	}
	if err := kube.Status().Update(s.t.Context(), w); err != nil {
		s.t.Fatalf("write the status of the widget: %v", err)
	}
}

func newWidget(group, namespace, name string) *unstructured.Unstructured {
	w := &unstructured.Unstructured{}
	w.SetAPIVersion(group + "/v1")
	w.SetKind("Widget")
	w.SetNamespace(namespace)
	w.SetName(name)
	return w
}

// removeFinalizers takes the finalizers from an object, as whoever put them there would.
func (s *scenario) removeFinalizers(object client.Object) {
	s.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := kube.Patch(s.t.Context(), object, patch); err != nil {
		s.t.Fatalf("remove the finalizers of %s: %v", object.GetName(), err)
	}
}
