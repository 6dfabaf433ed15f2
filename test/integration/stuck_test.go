package integration

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Kustomizations that wait for their workloads hold no worker: with twelve of them stuck and four workers, all workers
// are idle, and a thirteenth goes through while the twelve still wait.
func TestWaitingHoldsNoWorker(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	h := startProcess(t, s.namespace, env.Kubeconfig, "--concurrent=4")
	stuck := replaceOnce(deployment("web", missingImage, ""), "replicas: 2", "replicas: 1")
	r1 := s.push(map[string]string{"stuck/web.yaml": stuck, "fine/a.yaml": configMap("a", "1")})
	s.follow()
	const n = 12
	for i := range n {
		name := fmt.Sprintf("stuck%d", i)
		s.deploy(name, at("stuck"), func(ks *v1.Kustomization) { ks.Spec.NamePrefix = name + "-" })
	}
	allWait := func() error {
		for i := range n {
			if err := phaseIs(v1.PhaseVerifying)(s.mustGet(fmt.Sprintf("stuck%d", i))); err != nil {
				return fmt.Errorf("stuck%d: %w", i, err)
			}
		}
		return nil
	}
	eventually(t, within, "all of them wait", func(context.Context) error { return allWait() })
	eventually(t, within, "no worker is busy", func(ctx context.Context) error {
		busy, err := h.metric(ctx, `controller_runtime_active_workers{controller="kustomization"`)
		if err == nil && busy != 0 {
			err = fmt.Errorf("%v are", busy)
		}
		return err
	})
	s.deploy("fine", at("fine"))
	s.awaitReady("fine", r1)
	if err := allWait(); err != nil {
		t.Errorf("after the healthy one was Ready: %v", err)
	}
	for i := range n {
		if ks := s.mustGet(fmt.Sprintf("stuck%d", i)); meta.IsStatusConditionTrue(ks.Status.Conditions, "Ready") {
			t.Errorf("%s is Ready", ks.Name)
		}
	}
}
