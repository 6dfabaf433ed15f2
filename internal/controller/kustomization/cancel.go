package kustomization

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// tellCanceled says that the health check of the build before is given up for this one, in Flux's words, where its feature gate
// asks for that. The check is given up in any case; without the gate what follows says so.
func (p *pass) tellCanceled(ctx context.Context, was v1.RolloutStatus) *outcome {
	if !p.TellCanceledChecks || was.Phase != v1.PhaseVerifying || p.rollout.Phase != v1.PhaseApplying ||
		!conditions.IsUnknown(p.ks, healthyCondition) || !conditions.Has(p.ks, healthyCondition) {
		return nil
	}
	by, next := p.triggeredBy(was), p.rollout
	p.rollout = was
	conditions.MarkFalse(p.ks, meta.ReadyCondition, meta.HealthCheckCanceledReason, "New reconciliation triggered by %s", by)
	// It goes on saying what was given up.
	checking := cmp.Or(conditions.GetMessage(p.start, meta.ReconcilingCondition), p.reconcilingMessage())
	conditions.MarkReconciling(p.ks, meta.ProgressingWithRetryReason, "%s", checking)
	p.event(normal, meta.HealthCheckCanceledReason, "Health checks canceled due to new reconciliation triggered by "+by)
	err := p.writeStatus(ctx)
	p.rollout = next
	if err != nil {
		return p.lost(err)
	}
	return nil
}

// triggeredBy names the object whose change began this rollout: the source, if it offers another revision, else the Kustomization,
// which also stands for what it refers to.
func (p *pass) triggeredBy(was v1.RolloutStatus) string {
	if was.Wanted != nil && was.Wanted.Revision != p.target() {
		return p.sourceName()
	}
	return fmt.Sprintf("%s/%s/%s", v1.KustomizationKind, p.ks.Namespace, p.ks.Name)
}
