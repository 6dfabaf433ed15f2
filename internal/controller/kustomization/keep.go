package kustomization

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/revision"
)

// keepRevision stores what was applied once it is the last healthy revision, and lets go of what is not to be kept any longer.
// A revision that can't be stored stops nothing; the condition RollbackReady says so before it is needed.
func (p *pass) keepRevision(ctx context.Context) *outcome {
	wanted := p.resolved().Recovery.Keep
	keep := wanted
	if p.NoRevisionStore {
		keep = 0
	}
	if keep > 0 && p.isLastHealthy() && !plan.IsStored(p.rollout, p.built.Digest) {
		p.store(ctx)
	}
	left := plan.Stored(p.rollout, p.rolloutBefore(), keep)
	if len(left) != len(p.rollout.Stored) {
		if err := p.Revisions.Trim(ctx, p.ks, digests(left)); err != nil {
			p.trimFault = err.Error()
		} else {
			p.rollout.Stored = left
		}
	}
	p.reportRollbackReady(wanted)
	return nil
}

// isLastHealthy tells whether the build of this pass is what counts as the last healthy revision.
func (p *pass) isLastHealthy() bool {
	last := p.rollout.LastHealthy
	return p.rollout.Phase == v1.PhaseHealthy && last != nil && last.Digest == p.built.Digest && len(p.built.Objects) > 0
}

// notTrimmed says why more revisions are stored than are to be kept.
func (p *pass) notTrimmed() string {
	if p.trimFault == "" {
		return ""
	}
	return bounded("; those that are not needed any more can't be deleted: " + p.trimFault)
}

func (p *pass) store(ctx context.Context) {
	if p.mem.tooLarge == p.built.Digest {
		p.storeFault = p.mem.tooLargeText
		return
	}
	sum, err := p.Revisions.Save(ctx, p.ks, revision.Revision{RevisionDigest: *p.rollout.LastHealthy, Objects: p.built.Objects})
	var tooLarge *revision.TooLargeError
	switch {
	case errors.As(err, &tooLarge):
		p.mem.tooLarge, p.mem.tooLargeText = p.built.Digest, fmt.Sprintf("revision %s can't be stored: %v", p.target(), err)
		p.storeFault = p.mem.tooLargeText
	case err != nil:
		p.storeFault = err.Error()
	default:
		p.rollout.Stored = plan.StoreNext(p.rollout, sum)
	}
}

func digests(list []v1.StoredRevision) []string {
	out := make([]string, 0, len(list))
	for _, d := range list {
		out = append(out, d.Digest)
	}
	return out
}

// reportRollbackReady says whether there is a revision to go back to, and tells it once when there is none.
func (p *pass) reportRollbackReady(keep int) {
	before := conditions.Get(p.start, v1.RollbackReadyCondition)
	last := p.rollout.LastHealthy
	switch {
	case keep == 0:
		conditions.Delete(p.ks, v1.RollbackReadyCondition)
	case p.NoRevisionStore:
		conditions.MarkFalse(p.ks, v1.RollbackReadyCondition, "StoreOff", "this controller stores no revisions (--no-revision-store)")
	case p.storeFault != "":
		conditions.MarkFalse(p.ks, v1.RollbackReadyCondition, "StoreFailed", "%s", bounded(p.storeFault))
	case last == nil:
		conditions.MarkFalse(p.ks, v1.RollbackReadyCondition, "NothingHealthy", "no revision was healthy yet, so there is none to go back to")
	case plan.IsStored(p.rollout, last.Digest):
		conditions.MarkTrue(p.ks, v1.RollbackReadyCondition, "Stored", "%s is stored; %d in all%s", last.Revision, len(p.rollout.Stored), p.notTrimmed())
	case before == nil:
		conditions.MarkFalse(p.ks, v1.RollbackReadyCondition, "NotStored", "%s was healthy before revisions were kept", last.Revision)
	}
	now := conditions.Get(p.ks, v1.RollbackReadyCondition)
	if now != nil && now.Status == metav1.ConditionFalse && now.Reason == "StoreFailed" && (before == nil || before.Message != now.Message) {
		p.event(warning, v1.RollbackReadyCondition, "no rollback is possible: "+now.Message)
	}
}
