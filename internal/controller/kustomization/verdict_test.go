package kustomization

import (
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// Only what is current is healthy, and only what failed for good ends a verification.
func TestVerdictOf(t *testing.T) {
	for status, want := range map[health.Status]plan.Verdict{
		health.Current: plan.Healthy, health.Failed: plan.Failed, health.InProgress: plan.InProgress,
		health.Terminating: plan.InProgress, health.NotFound: plan.InProgress, health.Unknown: plan.InProgress, "": plan.InProgress,
	} {
		if got := verdictOf(status); got != want {
			t.Errorf("%q is %v, want %v", status, got, want)
		}
	}
}
