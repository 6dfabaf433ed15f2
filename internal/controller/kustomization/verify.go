package kustomization

import (
	"context"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// verify looks at the health of what was applied, once. It ends no pass: also while the verdict is open, the plan for
// the stale objects is made, so that status says what is kept and why.
func (p *pass) verify(ctx context.Context) *outcome {
	if p.emptyHeld() {
		return nil
	}
	if p.rollout.Phase == v1.PhaseHealthy && p.rollout.Verified && !p.applied && !plan.SoakGrew(p.rollout, p.soak()) {
		p.followJobs(ctx)
		return nil
	}
	checks := p.checks()
	for i := range checks {
		checks[i].Custom = p.expressions().health.For(checks[i].ID.GroupKind())
	}
	checked := p.Observer.Health(ctx, checks, p.now)
	jobs := p.rememberRuns(ctx) // after the look at health: what was complete then is complete now, or gone
	p.weighRuns(checked, jobs)
	overall := health.Fold(checked, !p.NoFailFast)
	p.rollout = plan.Judge(p.rollout, verdictOf(overall.Status), p.now, p.terms())
	p.mem.healthAt = p.now
	p.tellUnseen(jobs)
	p.tellUnplaced(jobs)
	p.follow(jobs)
	p.healthText = overall.TimeoutText()
	if overall.Status == health.Failed {
		p.healthText = overall.StalledText()
	}
	p.tellCulprits(culprits(overall))
	p.unblock(ctx, overall)
	p.considerGoingBack(ctx, overall)
	return nil
}

// watchedGap is the longest time between two looks at the health over which a build counts as having stayed healthy. Looks
// are much closer while that matters, unless the process was not there, or the passes ended before the look.
const watchedGap = time.Minute

// terms are what makes the verdict.
func (p *pass) terms() plan.Terms {
	return plan.Terms{Timeout: p.timeout(), Soak: p.soak(), Unwatched: p.now.Sub(p.mem.healthAt) > watchedGap}
}

// soak is how long the build has to stay healthy.
func (p *pass) soak() time.Duration { return p.resolved().Soak }

// soakEnd is when the build will have been healthy for long enough; zero when that is not waited for.
func (p *pass) soakEnd() time.Time { return plan.SoakEnd(p.rollout, p.soak()) }

// tellCulprits writes down what keeps the build from being healthy. While the same objects do, in the same phase, what was said
// about them stays: a pod that crashes and starts again all the time is one fact, not one every few seconds.
func (p *pass) tellCulprits(now []v1.Culprit) {
	was := p.rolloutBefore()
	sameID := func(a, b v1.Culprit) bool { return a.ID == b.ID }
	if was.Phase != p.rollout.Phase || !slices.EqualFunc(was.Culprits, now, sameID) {
		p.rollout.Culprits = now
		return
	}
	if said := conditions.Get(p.start, healthyCondition); said != nil && said.Reason == fluxmeta.HealthCheckFailedReason {
		p.healthText = said.Message
	}
}

func verdictOf(s health.Status) plan.Verdict {
	switch s {
	case health.Current:
		return plan.Healthy
	case health.Failed:
		return plan.Failed
	default:
		return plan.InProgress
	}
}

// checks are the objects whose health makes the verdict: all of the build with spec.wait, else those listed, else, in
// the background, the workloads of the build.
func (p *pass) checks() []observe.Check {
	if !p.waits() && len(p.ks.Spec.HealthChecks) > 0 {
		return p.listedChecks()
	}
	var checks []observe.Check
	for _, obj := range p.built.Objects {
		id := object.IDOf(obj)
		if p.isSelf(id) || p.rivals.Has(id) || observe.IsSkipped(obj) || (!p.waits() && !health.IsWorkload(id)) || p.course.Back && execute.RunsOnce(id) {
			continue
		}
		checks = append(checks, observe.Check{ID: id, Version: obj.GroupVersionKind().Version, Desired: obj})
	}
	return checks
}

func (p *pass) listedChecks() []observe.Check {
	checks := make([]observe.Check, 0, len(p.ks.Spec.HealthChecks))
	for _, ref := range p.ks.Spec.HealthChecks {
		c := checkOf(ref)
		if p.isSelf(c.ID) || p.rivals.Has(c.ID) {
			continue
		}
		c.Desired = p.find(c.ID)
		checks = append(checks, c)
	}
	return checks
}

// checkOf reads a health check reference; one without apiVersion means apps/v1, as in Flux.
func checkOf(ref fluxmeta.NamespacedObjectKindReference) observe.Check {
	if ref.APIVersion == "" {
		ref.APIVersion = "apps/v1"
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	return observe.Check{
		ID:      object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: ref.Namespace, Name: ref.Name},
		Version: gvk.Version,
	}
}

func (p *pass) isSelf(id object.ID) bool { return id == p.selfID() }

// selfID is the identity of the Kustomization as an object.
func (p *pass) selfID() object.ID {
	return object.ID{Group: v1.GroupVersion.Group, Kind: v1.KustomizationKind, Namespace: p.ks.Namespace, Name: p.ks.Name}
}

// maxCulprits bounds what status says about health.
const maxCulprits = 10

func culprits(overall health.Overall) []v1.Culprit {
	var list []v1.Culprit
	for _, c := range overall.Waiting {
		if len(list) == maxCulprits {
			break
		}
		message := c.Verdict.Message
		if c.Verdict.Error != "" {
			message = c.Verdict.Error
		}
		list = append(list, v1.Culprit{ID: c.ID.String(), Reason: string(c.Verdict.Status), Message: message})
	}
	return list
}

// The times between two looks at the health of a revision: short at first, since most rollouts are, then longer.
const (
	firstLooks  = time.Second
	laterLooks  = 3 * time.Second
	heldLooks   = 10 * time.Second
	firstPeriod = 20 * time.Second
)

// nextLook is how soon to look at the health again; zero when the verdict is final.
func (p *pass) nextLook() time.Duration {
	switch p.rollout.Phase {
	case v1.PhaseHeld:
		return heldLooks
	case v1.PhaseVerifying:
		after := laterLooks
		if p.rollout.Since != nil && p.now.Sub(p.rollout.Since.Time) < firstPeriod {
			after = firstLooks
		}
		if p.rollout.Deadline != nil {
			after = max(time.Millisecond, min(after, p.rollout.Deadline.Sub(p.now)))
		}
		return after
	case v1.PhaseHealthy:
		if end := p.soakEnd(); !end.IsZero() {
			return max(time.Millisecond, min(laterLooks, end.Sub(p.now)))
		}
		if len(p.followed) > 0 {
			return laterLooks
		}
	case v1.PhaseWaiting, v1.PhaseRefused, v1.PhaseApplying, v1.PhasePruning: // nothing is being judged
	}
	return 0
}
