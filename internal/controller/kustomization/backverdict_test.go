package kustomization

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// What a person reads while a stored revision is brought back, runs, or fails too. Both revisions are in every message, and a failing
// rollback keeps everything.
func TestBackVerdict(t *testing.T) {
	skipped := &v1.SkippedRevision{RevisionDigest: v1.RevisionDigest{Revision: "main@v2", Digest: "d2"}, Reason: v1.SkippedFailed,
		Message: "failed after 5m0s: Deployment/shop/web: pod web-1 CrashLoopBackOff"}
	pin := &v1.Pin{RevisionDigest: v1.RevisionDigest{Revision: "main@v1"}, Until: plan.UntilNext, By: "alice", Reason: "INC-1"}
	tests := map[string]struct {
		change func(*pass)
		state  state
		reason string
		says   []string
	}{
		"on the way":    {func(p *pass) { p.rollout.Phase = v1.PhaseVerifying }, stateProgressing, "", []string{"Going back to revision main@v1", "main@v2 failed after 5m0s"}},
		"there":         {func(*pass) {}, stateStalled, v1.ReasonRolledBack, []string{"main@v2 failed after 5m0s: Deployment/shop/web: pod web-1 CrashLoopBackOff; rolled back to main@v1"}},
		"not all of it": {func(p *pass) { p.rollout.LeftAsIs = []string{"Job/shop/a: x", "b", "c", "d"} }, stateStalled, v1.ReasonRolledBack, []string{"left as it is: Job/shop/a: x; b; c; and 1 more"}},
		"fails too": {func(p *pass) { p.rollout.Phase, p.healthText = v1.PhaseHeld, "Deployment/shop/web is not there" }, stateFailed, "HealthCheckFailed",
			[]string{"main@v2 failed after 5m0s", "going back to main@v1 failed", "Deployment/shop/web is not there", "everything is kept"}},
		"can't prune": {func(p *pass) { p.refusals = []string{"no"} }, stateFailed, "PruneFailed", []string{"main@v2 failed", "delete failed, errors: no"}},
		"by hand":     {func(p *pass) { p.rollout.Pin = pin }, stateReady, "", []string{"Applied revision: main@v1", "pinned to main@v1 by alice", "INC-1", "holdfast release"}},
		"by hand, on the way": {func(p *pass) { p.rollout.Pin, p.rollout.Phase = pin, v1.PhaseVerifying }, stateProgressing, "",
			[]string{"Going back to revision main@v1", "by alice"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := passOn(newKustomization())
			p.course = plan.Course{Back: true, To: v1.RevisionDigest{Revision: "main@v1", Digest: "d1"}}
			p.rollout.Skipped = skipped
			tt.change(p)
			out := p.verdict()
			if out.state != tt.state || out.reason != tt.reason {
				t.Errorf("%+v", out)
			}
			for _, text := range tt.says {
				if !strings.Contains(out.message, text) {
					t.Errorf("%q is not in %q", text, out.message)
				}
			}
		})
	}
}

// Who depends on a pinned Kustomization goes on, though it does not run the newest revision; without the pin nobody does.
func TestDependencyThatIsPinned(t *testing.T) {
	p := passOn(newKustomization())
	dep := newKustomization()
	dep.Namespace = p.ks.Namespace
	dep.Spec.SourceRef = p.ks.Spec.SourceRef
	dep.Status.LastAppliedRevision, dep.Status.ObservedGeneration = "main@v1", dep.Generation
	conditions.MarkTrue(dep, "Ready", "ReconciliationSucceeded", "fine")
	dep.Status.Rollout = &v1.RolloutStatus{Pin: &v1.Pin{}}
	if problem := p.conditionsProblem(keyOf(dep), dep); problem != "" {
		t.Error(problem)
	}
	dep.Status.Rollout.Pin = nil
	if problem := p.conditionsProblem(keyOf(dep), dep); !strings.Contains(problem, "not up to date") {
		t.Errorf("without the pin: %q", problem)
	}
}

// While a stored revision runs and the source can't be built, nothing is pruned: what the source wants is not known.
func TestNothingIsPrunedWhileTheSourceIsUnknown(t *testing.T) {
	p, _ := passAgainst(newKustomization())
	p.course = plan.Course{Back: true, To: v1.RevisionDigest{Revision: "main@v1"}}
	facts, _, err := p.facts(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Prune(facts); len(got.Delete) > 0 || len(got.Retain) != 1 || got.Retain[0].Reason != v1.RetainedSuperseded {
		t.Errorf("%+v", got)
	}
	p.wanted = p.built
	if facts, _, err = p.facts(t.Context(), true); err != nil || facts.Build.Newest == "" {
		t.Errorf("once it is known: %+v %v", facts.Build, err)
	}
}
