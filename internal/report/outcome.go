package report

import (
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Outcome is how an attempt at a revision ended.
type Outcome string

// The outcomes, the worst last.
const (
	// OutcomeHealthy: it runs what was tried.
	OutcomeHealthy Outcome = "Healthy"
	// OutcomeFailed: it failed, or was refused.
	OutcomeFailed Outcome = "Failed"
	// OutcomeRolledBack: it failed, and the last healthy revision runs again.
	OutcomeRolledBack Outcome = "RolledBack"
)

// OutcomeOf tells how the last attempt ended; empty while it is on its way or waits for another Kustomization.
func OutcomeOf(ks *v1.Kustomization) Outcome {
	ready := readyOf(ks)
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return ""
	case ready.Status == metav1.ConditionTrue:
		// Without a verdict asked for, Ready is True while the health is watched in the background.
		if ks.Status.ObservedGeneration != ks.Generation || ks.Status.Rollout != nil && !hasArrived(ks) {
			return ""
		}
		return OutcomeHealthy
	case ready.Reason == v1.ReasonRolledBack:
		return OutcomeRolledBack
	case ready.Reason == fluxmeta.DependencyNotReadyReason, goesBack(ks):
		return ""
	}
	return OutcomeFailed
}

// goesBack tells whether the wanted revision failed and the last healthy one is about to be brought back.
func goesBack(ks *v1.Kustomization) bool {
	r := ks.Status.Rollout
	return r != nil && r.Skipped != nil && r.Wanted != nil && r.Phase == v1.PhaseHeld && r.Skipped.Digest == r.Wanted.Digest
}
