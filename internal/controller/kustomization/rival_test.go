package kustomization

import (
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// A build that holds Flux is applied and waited for without it; it stays wanted, so that nothing of it is pruned.
func TestRivalsAreWithheld(t *testing.T) {
	controller := func(replicas int64, annotations map[string]string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"spec": map[string]any{"replicas": replicas, "template": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "manager", "image": "ghcr.io/fluxcd/kustomize-controller:v1.9.4"}}}}},
		}}
		obj.SetName("kustomize-controller")
		obj.SetNamespace("flux-system")
		obj.SetLabels(map[string]string{"app.kubernetes.io/part-of": "flux"})
		obj.SetAnnotations(annotations)
		return obj
	}
	for name, tt := range map[string]struct {
		obj    *unstructured.Unstructured
		remote bool
		in     string
		want   bool
	}{
		"it would run":            {obj: controller(1, nil), want: true},
		"it asks for no pods":     {obj: controller(0, nil)},
		"it is not to be applied": {obj: controller(1, map[string]string{v1.ControlPrefix + "ssa": "Ignore"})},
		"in the one namespace":    {obj: controller(1, nil), in: "flux-system", want: true},
		"in another namespace":    {obj: controller(1, nil), in: "team-a"},
		"on another cluster":      {obj: controller(1, nil), remote: true},
	} {
		p, _ := passAgainst(newKustomization())
		p.Rivals, p.RivalsIn, p.reached.Remote = []string{rival.KustomizeController}, tt.in, tt.remote
		p.ks.Spec.Wait = true
		p.built.Objects = append(p.built.Objects, tt.obj)
		before := len(p.toApply())
		p.withholdRivals(t.Context())
		id := object.IDOf(tt.obj)
		waited := false
		for _, c := range p.checks() {
			waited = waited || c.ID == id
		}
		p.ks.Spec.Wait, p.ks.Spec.HealthChecks = false, []fluxmeta.NamespacedObjectKindReference{
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "flux-system", Name: "kustomize-controller"},
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "flux-system", Name: "other"}}
		if got := len(p.checks()); got != 2 && !tt.want || got != 1 && tt.want {
			t.Errorf("%s: %d of the listed are waited for", name, got)
		}
		withheld, told := before-len(p.toApply()) == 1, conditions.IsTrue(p.ks, v1.RivalSkippedCondition)
		skipped := tt.obj.GetAnnotations() != nil
		if withheld != tt.want || told != tt.want || waited != (!tt.want && !skipped) || !p.desired().Has(id) {
			t.Errorf("%s: withheld %t, told %t, waited for %t, wanted %t", name, withheld, told, waited, p.desired().Has(id))
		}
		events := len(p.events)
		if p.withholdRivals(t.Context()); len(p.events) != events || events > 1 || (events == 1) != tt.want {
			t.Errorf("%s: %d events, and %d the next time", name, events, len(p.events)-events)
		}
	}
}
