package kustomization

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// unblock deletes the pods that keep a StatefulSet of the build from going on. What can't be read is left alone: the verdict on
// health is made without it.
func (p *pass) unblock(ctx context.Context, overall health.Overall) {
	if !p.UnblockStatefulSets {
		return
	}
	var sets []plan.OrderedSet
	for _, c := range overall.Waiting {
		if c.ID.Group != "apps" || c.ID.Kind != "StatefulSet" || p.find(c.ID) == nil {
			continue
		}
		set, ordered, err := p.reached.Users.OrderedSet(ctx, c.ID)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("can't tell whether a pod blocks the StatefulSet", "error", err.Error())
		}
		if ordered {
			sets = append(sets, set)
		}
	}
	for _, u := range plan.Unblock(sets, p.trustedBefore(), p.now) {
		p.deleteBlocking(ctx, u)
	}
}

// trustedBefore is the time up to which a StatefulSet may have been healthy: the last healthy time, or, where nothing was
// healthy yet, the first rollout that is known. One that is older was taken over, and what it ran may have been fine for long.
func (p *pass) trustedBefore() time.Time {
	r := p.rollout
	switch {
	case r.LastHealthy != nil && r.LastHealthy.At != nil:
		return r.LastHealthy.At.Time
	case len(r.History) > 0:
		return r.History[len(r.History)-1].Started.Add(-time.Second) // times are cut to the second
	case r.Began != nil:
		return r.Began.Add(-time.Second)
	}
	return p.now
}

func (p *pass) deleteBlocking(ctx context.Context, u plan.Unblocking) {
	for _, d := range p.Executor.Delete(ctx, []plan.Deletion{u.Deletion}, p.Mapper) {
		switch d.Outcome {
		case execute.DeleteAccepted:
			p.event(normal, meta.ProgressingReason, blockedText(u.ID, u.Set)+": deleted")
		case execute.DeleteFailed:
			ctrl.LoggerFrom(ctx).Error(d.Err, blockedText(u.ID, u.Set))
		case execute.DeleteStale:
			// The pod changed since it was seen. The next look decides anew.
		}
	}
}

func blockedText(pod, set object.ID) string {
	return fmt.Sprintf("%s is not ready, runs a template of %s that is given up, and keeps it from going on", pod, set)
}
