package integration

import (
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// expressionOn judges the ConfigMaps of a Kustomization, which are always ready otherwise, by an expression.
func expressionOn(failed, current string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.HealthCheckExprs = []kustomize.CustomHealthCheck{{APIVersion: "v1", Kind: "ConfigMap",
			HealthCheckExpressions: kustomize.HealthCheckExpressions{Failed: failed, Current: current}}}
	}
}

// spec.healthCheckExprs. P117, P118: they decide about objects of the build, and of healthChecks; P119: what can't be evaluated
// is said, and kept from being ready.
func TestHealthCheckExprs(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app", expressionOn("data.k == '1'", "data.k == '2'"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "HealthCheckFailed",
		"failed early due to stalled resources: [ConfigMap/"+s.namespace+"/a status: 'Failed']")
	s.change("app", expressionOn("", "data.k == '1'"))
	s.awaitReady("app", r1)

	// A held revision prunes nothing, by whatever rule.
	s.push(map[string]string{"b.yaml": configMap("b", "1")})
	s.change("app", expressionOn("data.k == '1'", "data.k == '2'"))
	s.awaitRetained("app", s.cmID("a"), v1.RetainedAwaitingHealth)
	r3 := s.push(map[string]string{"b.yaml": configMap("b", "2")})
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.cm("a"))

	s.change("app", func(ks *v1.Kustomization) {
		expressionOn("", "data.nothing == '1'")(ks)
		ks.Spec.Wait = false
		ks.Spec.HealthChecks = []fluxmeta.NamespacedObjectKindReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.namespace, Name: "b"}}
	})
	ks := s.await("app", "waiting for what can't be evaluated", func(ks *v1.Kustomization) error {
		return culpritsAre(ks, "ConfigMap/"+s.namespace+"/b")
	})
	if c := ks.Status.Rollout.Culprits[0]; c.Reason != "Unknown" || c.Message != "failed to evaluate the CEL expression 'data.nothing == '1'': no such key: nothing" {
		t.Errorf("the culprit is %+v", c)
	}
}

// P120, P128: an expression that no evaluation can satisfy stops the Kustomization until its spec changes.
func TestInvalidExpressions(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	rev := s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "base/b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("base", at("base"))
	s.awaitReady("base", rev)
	s.deploy("app", at("a"), expressionOn("", "data."))
	const prefix = "Reconciliation failed terminally due to configuration error: "
	tests := []struct {
		change func(*v1.Kustomization)
		want   string
	}{
		{change: expressionOn("", "data."), want: prefix + "failed to create custom status evaluator for healthchecks[0]: "},
		{change: func(ks *v1.Kustomization) {
			one := ks.Spec.HealthCheckExprs[0]
			one.Current = "true"
			ks.Spec.HealthCheckExprs = []kustomize.CustomHealthCheck{one, one}
		}, want: prefix + "duplicate custom health check for GroupKind ConfigMap at healthchecks[1]"},
		{change: func(ks *v1.Kustomization) {
			ks.Spec.HealthCheckExprs = nil
			ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "base", ReadyExpr: "1 + 1"}}
		}, want: prefix + "terminal error: failed to evaluate dependency base: CEL expression output type mismatch: expected bool, got int"},
	}
	for _, tt := range tests {
		s.change("app", tt.change)
		ks := s.awaitMessage("app", "Stalled", metav1.ConditionTrue, "InvalidCELExpression", tt.want)
		if err := messageIs(ks, "Ready", metav1.ConditionFalse, "InvalidCELExpression", tt.want); err != nil {
			t.Error(err)
		}
		if ks.Status.ObservedGeneration != ks.Generation || ks.Status.Inventory != nil {
			t.Errorf("observed generation %d of %d, inventory %v", ks.Status.ObservedGeneration, ks.Generation, ks.Status.Inventory)
		}
		s.awaitEvent("app", "Warning", "InvalidCELExpression", tt.want)
	}
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.DependsOn = nil })
	s.awaitReady("app", rev)
}

// P127, P129: spec.dependsOn[].readyExpr stands for the conditions of the dependency, and nobody asks when the Kustomization goes.
func TestReadyExpr(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	rev := s.push(map[string]string{"app/a.yaml": configMap("a", "1"), "base/b.yaml": broken("web", "")})
	s.follow()
	const same = "dep.metadata.?labels.version.orValue('') == self.metadata.labels.version"
	ks := s.deploy("app", at("app"), func(ks *v1.Kustomization) {
		ks.Labels = map[string]string{"version": "2"}
		ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "base", ReadyExpr: same}}
	})
	base := "dependency '" + s.namespace + "/base' "
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", base+"not found: ")
	s.deploy("base", at("base"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", base+"is not ready according to readyExpr eval")
	// It never gets ready, and need not.
	s.change("base", func(ks *v1.Kustomization) { ks.Labels = map[string]string{"version": "2"} })
	s.awaitReady("app", rev)

	// What fails for now is asked again.
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.DependsOn[0].ReadyExpr = "dep.metadata.labels.nothing == '1'" })
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", base, "failed to evaluate the CEL expression", "no such key: nothing")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
}

// P127, P224: with the gate AdditiveCELDependencyCheck the conditions have to hold as well.
func TestAdditiveReadyExpr(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Kustomization.AdditiveReadyExpr = true })
	s.push(map[string]string{"app/a.yaml": configMap("a", "1"), "base/b.yaml": broken("web", "")})
	s.follow()
	s.deploy("base", at("base"))
	s.deploy("app", at("app"), func(ks *v1.Kustomization) {
		ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "base", ReadyExpr: "true"}}
	})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+s.namespace+"/base' is not ready")
	rev := s.push(map[string]string{"app/a.yaml": configMap("a", "1"), "base/b.yaml": configMap("b", "1")})
	s.awaitReady("app", rev)
}
