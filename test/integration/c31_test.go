package integration

import (
	"fmt"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC31: a health check that names a wrong namespace waits in silence, and correcting it has no effect until the old
// timeout ends. Here the missing object is named while it is waited for, and the correction counts at once.
func TestC31(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"web.yaml": deployment("web", goodImage, "")})
	s.follow()
	check := func(apiVersion, kind, namespace string) func(*v1.Kustomization) {
		return func(ks *v1.Kustomization) {
			ks.Spec.Wait = false
			ks.Spec.HealthChecks = []fluxmeta.NamespacedObjectKindReference{{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: "web"}}
		}
	}
	s.deploy("web", check("apps/v1", "Deployment", "wrong"))
	s.await("web", "waiting for the missing object by name", func(ks *v1.Kustomization) error {
		if err := phaseIs(v1.PhaseVerifying)(ks); err != nil {
			return err
		}
		for _, c := range ks.Status.Rollout.Culprits {
			if c.ID == "Deployment/wrong/web" && c.Reason == "NotFound" {
				return nil
			}
		}
		return fmt.Errorf("the culprits are %v", ks.Status.Rollout.Culprits)
	})
	// P09: without apiVersion apps/v1 is meant.
	s.change("web", check("", "Deployment", s.namespace))
	s.awaitReady("web", r1)

	for name, wrong := range map[string][2]string{"group in the kind": {"apps/v1", "deployments.apps"}, "version": {"v1", "Job"}} {
		s.change("web", check(wrong[0], wrong[1], s.namespace))
		ks := s.awaitMessage("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed", wrong[1], "check apiVersion and kind")
		if err := phaseIs(v1.PhaseHeld)(ks); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.change("web", check("apps/v1", "Deployment", s.namespace))
		s.awaitReady("web", r1)
	}
}
