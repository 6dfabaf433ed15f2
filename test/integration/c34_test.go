package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/kustomize"
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
	r1 := s.push(map[string]string{"crd.yaml": reportingCRD(group), "w.yaml": widget(group, "w", "1"), "old.yaml": configMap("old", "1")})
	s.follow()
	s.deploy("app")
	w := newWidget(group, s.namespace, "w")
	s.observed(w, 1)
	s.awaitReady("app", r1)

	r2 := s.push(map[string]string{"crd.yaml": reportingCRD(group), "w.yaml": widget(group, "w", "2")})
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

// TestC34WithoutStatus: a custom resource that nobody has looked at counts as ready too early, and a static one never. Here what
// its definition promises is waited for, and what it does not is not; spec.healthCheckExprs has the last word.
func TestC34WithoutStatus(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	reporting, static := uniqueName("c34a")+".example.com", uniqueName("c34b")+".example.com"
	rev := s.push(map[string]string{"a.yaml": reportingCRD(reporting), "b.yaml": widgetCRD(static),
		"aw.yaml": widget(reporting, "waits", "1"), "bw.yaml": widget(static, "static", "1")})
	s.follow()
	s.deploy("app")
	waits := s.await("app", "waiting for the status", func(ks *v1.Kustomization) error { return culpritsAre(ks, "Widget/"+s.namespace+"/waits") })
	if c := waits.Status.Rollout.Culprits[0]; c.Reason != "InProgress" || c.Message != "Widget has no status yet" {
		t.Errorf("the culprit is %+v", c)
	}
	// Expressions beat the rule for the one, and add one for the other.
	s.change("app", func(ks *v1.Kustomization) {
		ks.Spec.HealthCheckExprs = []kustomize.CustomHealthCheck{
			{APIVersion: reporting + "/v1", Kind: "Widget", HealthCheckExpressions: kustomize.HealthCheckExpressions{Current: "true"}},
			{APIVersion: static + "/v1", Kind: "Widget", HealthCheckExpressions: kustomize.HealthCheckExpressions{Current: "has(status.done)"}},
		}
	})
	s.await("app", "waiting by the expression", func(ks *v1.Kustomization) error { return culpritsAre(ks, "Widget/"+s.namespace+"/static") })
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.HealthCheckExprs = nil })
	s.await("app", "waiting for the status again", func(ks *v1.Kustomization) error { return culpritsAre(ks, "Widget/"+s.namespace+"/waits") })
	s.observed(newWidget(reporting, s.namespace, "waits"), 1)
	s.awaitReady("app", rev)
}

// culpritsAre returns nil if exactly these objects keep the revision from being healthy.
func culpritsAre(ks *v1.Kustomization, ids ...string) error {
	var got []string
	if ks.Status.Rollout != nil {
		for _, c := range ks.Status.Rollout.Culprits {
			got = append(got, c.ID)
		}
	}
	if !slices.Equal(got, ids) {
		return fmt.Errorf("the culprits are %v, want %v; %v", got, ids, messages(ks))
	}
	return nil
}

// observed writes the status that a controller would write for a generation, once the object is there.
func (s *scenario) observed(w *unstructured.Unstructured, generation int64) {
	s.t.Helper()
	eventually(s.t, within, "the widget exists", func(ctx context.Context) error { return kube.Get(ctx, client.ObjectKeyFromObject(w), w) })
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
