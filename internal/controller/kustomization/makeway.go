package kustomization

import (
	"context"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// timingInterval is the time between two looks at what only the state of the rollout holds, for an annotation that lets go
// of it.
const timingInterval = 10 * time.Second

// makeWay deletes what is to go before its successor is applied (holdfast.dev/prune: Immediate), and ends the pass while that
// is on its way out. What is kept for another reason does not stop the apply.
func (p *pass) makeWay(ctx context.Context) *outcome {
	if p.isApplied() || len(p.stale()) == 0 {
		return nil
	}
	facts, overtaken, err := p.facts(ctx, false)
	if err != nil {
		return p.waitingErr(err)
	}
	if overtaken {
		return &outcome{state: stateProgressing, err: errOvertaken}
	}
	facts = p.carryOut(ctx, facts)
	var pending []string
	for _, id := range plan.InTheWay(facts, p.plan) {
		pending = append(pending, id.String()+" is deleted first")
	}
	if len(pending) > 0 {
		return p.applyPending(pending)
	}
	return nil
}

// toObserve are the objects that are worth a look of their own in this pass. One that status shows as waiting for health is
// looked at now and then; what is new, or was let go of and is still there, each time.
func (p *pass) toObserve(f plan.Facts) object.Set {
	need := object.NewSet(plan.NeedObservation(f)...)
	due := !f.Build.Applied || p.now.Sub(p.mem.timingAt) >= timingInterval
	waiting := map[string]bool{}
	for _, r := range p.retainedBefore() {
		waiting[r.ID] = r.Reason == v1.RetainedAwaitingHealth
	}
	for _, id := range plan.NeedTiming(f) {
		if due || !waiting[id.Inventory()] {
			need[id] = struct{}{}
		}
	}
	return need
}
