package kustomization

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newKustomization is one at generation 2, of which nothing was observed yet.
func newKustomization() *v1.Kustomization {
	ks := &v1.Kustomization{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.KustomizationKind},
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "flux-system", Generation: 2},
		Spec: v1.KustomizationSpec{KustomizationSpec: fluxv1.KustomizationSpec{
			Interval: metav1.Duration{Duration: time.Hour}, Timeout: &metav1.Duration{Duration: 5 * time.Minute},
			RetryInterval: &metav1.Duration{Duration: time.Minute}, Prune: true, Path: "./deploy",
		}},
	}
	ks.Status.ObservedGeneration = -1
	return ks
}

// passOn is a pass over ks that came as far as a plan.
func passOn(ks *v1.Kustomization) *pass {
	p := &pass{
		Reconciler: &Reconciler{Now: func() time.Time { return now.Add(time.Second) }},
		start:      ks.DeepCopy(), before: ks.DeepCopy(), ks: ks,
		mem: &memory{nextApply: now.Add(time.Hour)}, now: now,
		artifact: &fluxmeta.Artifact{Revision: "main@sha1:abc", Digest: "sha256:1"},
		built:    &build.Result{Digest: "sha256:d"}, inventory: inventory.Of(), planned: true,
		rollout: v1.RolloutStatus{Phase: v1.PhaseHealthy, Verified: true},
	}
	if ks.Status.Rollout != nil {
		p.rollout = *ks.Status.Rollout.DeepCopy()
	}
	return p
}

var outcomes = map[string]struct {
	out           outcome
	wantKstatus   status.Status
	wantReady     metav1.ConditionStatus
	wantReason    string
	wantOther     map[string]string
	wantObserved  bool
	wantApplied   bool
	wantNoMessage bool
}{
	"ready": {out: outcome{state: stateReady, message: "Applied revision: main@sha1:abc"},
		wantKstatus: status.CurrentStatus, wantReady: metav1.ConditionTrue, wantReason: "ReconciliationSucceeded", wantObserved: true, wantApplied: true},
	"progressing": {out: outcome{state: stateProgressing, message: "Running health checks"},
		wantKstatus: status.InProgressStatus, wantReady: metav1.ConditionUnknown, wantReason: "Progressing", wantOther: map[string]string{"Reconciling": "Progressing"}},
	"waiting": {out: outcome{state: stateWaiting, reason: "DependencyNotReady", message: "dependency 'a/b' is not ready"},
		wantKstatus: status.InProgressStatus, wantReady: metav1.ConditionFalse, wantReason: "DependencyNotReady", wantOther: map[string]string{"Reconciling": "ProgressingWithRetry"}},
	"failed": {out: outcome{state: stateFailed, reason: "BuildFailed", message: "kustomize build failed"},
		wantKstatus: status.InProgressStatus, wantReady: metav1.ConditionFalse, wantReason: "BuildFailed", wantOther: map[string]string{"Reconciling": "ProgressingWithRetry"}},
	"stalled": {out: outcome{state: stateStalled, reason: "FieldNotSupported", message: "spec.decryption: not supported"},
		wantKstatus: status.FailedStatus, wantReady: metav1.ConditionFalse, wantReason: "FieldNotSupported", wantOther: map[string]string{"Stalled": "FieldNotSupported"}, wantObserved: true},
}

func kstatusOf(t *testing.T, ks *v1.Kustomization) status.Status {
	t.Helper()
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ks)
	if err != nil {
		t.Fatal(err)
	}
	res, err := status.Compute(&unstructured.Unstructured{Object: u})
	if err != nil {
		t.Fatal(err)
	}
	return res.Status
}

// Every outcome has its conditions, whatever the outcome before it was, and said twice it changes nothing.
func TestConditionsOfOutcomes(t *testing.T) {
	for before, first := range outcomes {
		for name, tt := range outcomes {
			t.Run(before+", then "+name, func(t *testing.T) {
				ks := newKustomization()
				passOn(ks).report(first.out)
				p := passOn(ks)
				p.report(tt.out)
				ready := conditions.Get(ks, fluxmeta.ReadyCondition)
				if ready.Status != tt.wantReady || ready.Reason != tt.wantReason {
					t.Errorf("Ready is %s %s", ready.Status, ready.Reason)
				}
				if tt.out.state != stateProgressing && ready.Message != tt.out.message {
					t.Errorf("Ready says %q", ready.Message)
				}
				others := map[string]string{}
				for _, c := range ks.Status.Conditions {
					if c.ObservedGeneration != 2 {
						t.Errorf("%s speaks of generation %d", c.Type, c.ObservedGeneration)
					}
					if c.Type != fluxmeta.ReadyCondition {
						others[c.Type] = c.Reason
					}
				}
				if !maps.Equal(others, tt.wantOther) {
					t.Errorf("conditions %v, want %v", others, tt.wantOther)
				}
				if got := kstatusOf(t, ks); got != tt.wantKstatus {
					t.Errorf("kstatus says %s, want %s", got, tt.wantKstatus)
				}
				if before == name && (ks.Status.ObservedGeneration == 2) != tt.wantObserved {
					t.Errorf("observed generation %d", ks.Status.ObservedGeneration)
				}
				if before == name && (ks.Status.LastAppliedRevision == "main@sha1:abc") != tt.wantApplied {
					t.Errorf("last applied %q", ks.Status.LastAppliedRevision)
				}
				once := ks.Status.DeepCopy()
				passOn(ks).report(tt.out)
				if diff := cmp.Diff(once, &ks.Status); diff != "" {
					t.Errorf("said again: %s", diff)
				}
			})
		}
	}
}

// P134: what stalls is not being reconciled any more, and is observed where only another spec helps: not where the same spec may be
// allowed after a restart with other flags.
func TestTerminalFailures(t *testing.T) {
	for reason, want := range map[string]int64{
		fluxmeta.InvalidCELExpressionReason: 2, fluxAccessDenied: -1, fluxmeta.FeatureGateDisabledReason: -1,
	} {
		t.Run(reason, func(t *testing.T) {
			ks := newKustomization()
			p := passOn(ks)
			p.markProgressing("Detecting drift")
			p.report(outcome{state: stateStalled, reason: reason, message: "no"})
			if ks.Status.ObservedGeneration != want {
				t.Errorf("the observed generation is %d, want %d", ks.Status.ObservedGeneration, want)
			}
			if conditions.Has(ks, "Reconciling") || conditions.GetReason(ks, "Stalled") != reason || conditions.GetReason(ks, "Ready") != reason || !conditions.IsFalse(ks, "Ready") {
				t.Errorf("%+v", ks.Status.Conditions)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	const rev = "main@sha1:abc"
	held := func(p *pass) {
		p.ks.Spec.Wait = true
		deadline, since := metav1.NewTime(now), metav1.NewTime(now.Add(-time.Minute))
		p.rollout = v1.RolloutStatus{Phase: v1.PhaseHeld, Deadline: &deadline, Since: &since}
		p.healthText = "timeout waiting for: [x]"
	}
	tests := map[string]struct {
		change      func(*pass)
		wantState   state
		wantReason  string
		wantMessage string
		wantAfter   time.Duration
	}{
		"ready": {change: func(*pass) {}, wantState: stateReady, wantMessage: "Applied revision: " + rev, wantAfter: time.Hour},
		"ready, objects kept": {change: func(p *pass) { p.plan.Retain = kept(v1.RetainedInUse, v1.RetainedPruneDisabled, v1.RetainedInUse) },
			wantState: stateReady, wantMessage: "Applied revision: " + rev + "; kept from pruning: 1 PruneDisabled, 2 InUse", wantAfter: time.Hour},
		"overdue": {change: func(p *pass) { p.mem.nextApply = now.Add(-time.Hour) }, wantState: stateReady, wantMessage: "Applied revision: " + rev, wantAfter: time.Millisecond},
		"verifying": {change: func(p *pass) { p.ks.Spec.Wait, p.rollout.Phase = true, v1.PhaseVerifying },
			wantState: stateProgressing, wantMessage: "Running health checks for revision " + rev + " with a timeout of 5m0s"},
		"verifying in the background": {change: func(p *pass) { p.rollout.Phase = v1.PhaseVerifying }, wantState: stateReady, wantMessage: "Applied revision: " + rev, wantAfter: time.Hour},
		"held": {change: held, wantState: stateFailed, wantReason: "HealthCheckFailed",
			wantMessage: "health check failed after 4m0s: timeout waiting for: [x]", wantAfter: time.Minute},
		"held, and nothing is kept for it": {change: func(p *pass) { held(p); p.plan.Retain = kept(v1.RetainedPruneDisabled) }, wantState: stateFailed,
			wantReason: "HealthCheckFailed", wantMessage: "health check failed after 4m0s: timeout waiting for: [x]", wantAfter: time.Minute},
		"held, objects kept for it": {change: func(p *pass) {
			held(p)
			p.plan.Retain = kept(v1.RetainedAwaitingHealth, v1.RetainedAwaitingHealth, v1.RetainedAwaitingHealth, v1.RetainedPruneDisabled, v1.RetainedAwaitingHealth, v1.RetainedAwaitingHealth)
		}, wantState: stateFailed, wantReason: "HealthCheckFailed", wantAfter: time.Minute,
			wantMessage: "health check failed after 4m0s: timeout waiting for: [x]; kept until a revision is healthy: ConfigMap/shop/c0, ConfigMap/shop/c1, ConfigMap/shop/c2 and 2 more " +
				"(to let one go now, annotate it with holdfast.dev/prune: Immediate)"},
		"held in the background": {change: func(p *pass) { held(p); p.ks.Spec.Wait = false }, wantState: stateReady, wantMessage: "Applied revision: " + rev, wantAfter: time.Hour},
		"deletions refused": {change: func(p *pass) { p.refusals = []string{"a", "b"} }, wantState: stateFailed, wantReason: "PruneFailed",
			wantMessage: "delete failed, errors: a; b", wantAfter: time.Minute},
		"held and refused": {change: func(p *pass) { held(p); p.refusals = []string{"a"} }, wantState: stateFailed, wantReason: "HealthCheckFailed",
			wantMessage: "health check failed after 4m0s: timeout waiting for: [x]", wantAfter: time.Minute},
		"explicitly empty":                      {change: func(p *pass) { p.inventory = inventory.Of(inventory.Entry{}) }, wantState: stateReady, wantMessage: "Applied revision: " + rev, wantAfter: time.Hour},
		"empty without a word, nothing to lose": {change: func(p *pass) { p.built.Empty = build.EmptyUnexplained }, wantState: stateReady, wantMessage: "Applied revision: " + rev, wantAfter: time.Hour},
		"empty without a word, prune off": {change: func(p *pass) {
			p.built.Empty, p.inventory, p.ks.Spec.Prune = build.EmptyUnexplained, inventory.Of(inventory.Entry{}), false
		}, wantState: stateReady, wantMessage: "Applied revision: " + rev, wantAfter: time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := passOn(newKustomization())
			tt.change(p)
			for range 20 { // a message that depends on the order of a map shows soon
				got := p.verdict()
				want := outcome{state: tt.wantState, reason: tt.wantReason, message: tt.wantMessage, after: tt.wantAfter}
				if got.state != want.state || got.reason != want.reason || got.message != want.message || (want.after != 0 && got.after != want.after) {
					t.Fatalf("%+v, want %+v", got, want)
				}
			}
		})
	}
	p := passOn(newKustomization())
	p.built.Empty, p.inventory = build.EmptyUnexplained, inventory.Of(inventory.Entry{})
	p.plan.Retain = kept(v1.RetainedAwaitingConfirmation)
	if got := p.verdict(); got.state != stateStalled || got.reason != "AwaitingConfirmation" || !strings.HasPrefix(got.message, "0 objects built from ./deploy") {
		t.Errorf("empty without a word: %+v", got)
	}
}

func kept(reasons ...v1.RetentionReason) []plan.Retention {
	var list []plan.Retention
	for i, r := range reasons {
		list = append(list, plan.Retention{ID: object.ID{Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("c", i)}, Hold: plan.Hold{Reason: r, Until: "later"}})
	}
	return list
}

func TestRetainedIsBounded(t *testing.T) {
	p := passOn(newKustomization())
	p.plan.Retain = kept(slices.Repeat([]v1.RetentionReason{v1.RetainedInUse}, 1200)...)
	for i := range p.plan.Retain {
		p.plan.Retain[i].Users = []string{"a", "b", "c", "d", "e", "f", "g"}
	}
	p.reportRetained()
	if len(p.rollout.Retained) != 500 || p.rollout.RetainedCount != 1200 {
		t.Errorf("%d of %d are listed", len(p.rollout.Retained), p.rollout.RetainedCount)
	}
	if r := p.rollout.Retained[0]; len(r.Users) != 5 || r.UserCount != 7 {
		t.Errorf("%d of %d users", len(r.Users), r.UserCount)
	}
	// An API server's error can be long. What is stored stays far below what etcd takes.
	for i := range p.plan.Retain {
		p.plan.Retain[i].Message = strings.Repeat("é", 20_000)
		p.plan.Retain[i].Users = slices.Repeat([]string{strings.Repeat("u", 300)}, 9)
	}
	p.reportRetained()
	stored, err := json.Marshal(p.rollout)
	if err != nil || len(stored) > 400<<10 || len(p.rollout.Retained) < 50 || p.rollout.RetainedCount != 1200 {
		t.Errorf("%d bytes for %d objects of %d: %v", len(stored), len(p.rollout.Retained), p.rollout.RetainedCount, err)
	}
}

func TestRetainedSince(t *testing.T) {
	ks := newKustomization()
	p := passOn(ks)
	p.plan.Retain = kept(v1.RetainedAwaitingHealth)
	p.reportRetained()
	ks.Status.Rollout = p.rollout.DeepCopy()
	later := passOn(ks)
	later.now = now.Add(time.Hour)
	later.plan.Retain = kept(v1.RetainedInUse, v1.RetainedInUse)
	later.reportRetained()
	got := later.rollout.Retained
	if !got[0].Since.Time.Equal(now) || !got[1].Since.Time.Equal(now.Add(time.Hour)) || got[0].Reason != v1.RetainedInUse {
		t.Errorf("kept since %s and %s", got[0].Since, got[1].Since)
	}
}

func TestHealthyCondition(t *testing.T) {
	tests := map[string]struct {
		wait       bool
		phase      v1.Phase
		wantStatus metav1.ConditionStatus
	}{
		"not asked for": {phase: v1.PhaseHealthy},
		"verifying":     {wait: true, phase: v1.PhaseVerifying, wantStatus: metav1.ConditionUnknown},
		"held":          {wait: true, phase: v1.PhaseHeld, wantStatus: metav1.ConditionFalse},
		"healthy":       {wait: true, phase: v1.PhaseHealthy, wantStatus: metav1.ConditionTrue},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ks := newKustomization()
			ks.Generation = 1
			conditions.MarkTrue(ks, healthyCondition, fluxmeta.SucceededReason, "of the generation before")
			ks.Generation = 2
			ks.Spec.Wait = tt.wait
			p := passOn(ks)
			p.rollout.Phase = tt.phase
			p.reportHealthy()
			c := conditions.Get(ks, healthyCondition)
			if tt.wantStatus == "" {
				if c != nil {
					t.Errorf("%+v", c)
				}
				return
			}
			if c == nil || c.Status != tt.wantStatus || c.ObservedGeneration != 2 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	ks := newKustomization()
	say := func(out outcome, change func(*pass)) int {
		p := passOn(ks)
		if change != nil {
			change(p)
		}
		p.reportHistory(out)
		if h := ks.Status.History.Latest(); h != nil {
			return int(h.TotalReconciliations)
		}
		return 0
	}
	ready, failed := outcome{state: stateReady}, outcome{state: stateFailed, reason: "HealthCheckFailed"}
	if n := say(outcome{state: stateFailed, reason: "BuildFailed"}, func(p *pass) { p.built = nil }); n != 0 {
		t.Error("a failed build has a history")
	}
	if n := say(outcome{state: stateFailed, err: errors.New("timeout")}, nil); n != 0 {
		t.Error("a fault of the API server has a history")
	}
	if n := say(ready, nil); n != 1 {
		t.Errorf("%d", n)
	}
	if n := say(ready, nil); n != 1 {
		t.Errorf("an idle interval is history: %d", n)
	}
	if n := say(ready, func(p *pass) { p.asked = true }); n != 2 {
		t.Errorf("a request is not: %d", n)
	}
	if n := say(failed, nil); n != 1 || len(ks.Status.History) != 2 || ks.Status.History.Latest().LastReconciledStatus != "HealthCheckFailed" {
		t.Errorf("%+v", ks.Status.History.Latest())
	}
}

func TestBounded(t *testing.T) {
	long := bounded(strings.Repeat("é", maxMessage))
	if len(long) > maxMessage+3 || !strings.HasSuffix(long, "é...") {
		t.Errorf("%d bytes, ends in %q", len(long), long[len(long)-6:])
	}
	if bounded("short") != "short" {
		t.Error("a short message was cut")
	}
}

// What waits for a person stands in the status with a digest and a count by kind, in a condition, and in one event.
func TestPendingPrune(t *testing.T) {
	p := passOn(newKustomization())
	p.inventory = inventory.Of(inventory.Entry{ID: object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "c0"}})
	p.plan.Retain = append(kept(v1.RetainedAwaitingConfirmation, v1.RetainedAwaitingConfirmation, v1.RetainedInUse, v1.RetainedAwaitingConfirmation),
		plan.Retention{ID: object.ID{Kind: "Secret", Name: "s"}, UID: "s", Hold: plan.Hold{Reason: v1.RetainedAwaitingConfirmation}})
	p.plan.Retain[0].UID, p.plan.Retain[1].UID = "u", "v" // the fourth was not read, and nobody can be asked about it yet
	for range 5 {
		p.reportRetained()
	}
	pending := p.rollout.PendingPrune
	if pending == nil || pending.Count != 3 || pending.Digest != plan.Digest(p.rollout.Retained) || !strings.HasSuffix(pending.Message, ": 2 ConfigMap, 1 Secret; 1 more are asked about afterwards") {
		t.Fatalf("%+v", pending)
	}
	held := conditions.Get(p.ks, v1.PruneHeldCondition)
	if held == nil || held.Status != metav1.ConditionTrue || held.Reason != "AwaitingConfirmation" || !strings.Contains(held.Message, "--expect "+pending.Digest) {
		t.Errorf("%+v", held)
	}
	// It was news once, and is none when status says so already.
	if len(p.events) != 5 || p.events[0].reason != "AwaitingConfirmation" {
		t.Errorf("%+v", p.events)
	}
	p.before.Status.Rollout, p.events = p.rollout.DeepCopy(), nil
	p.reportRetained()
	if len(p.events) > 0 {
		t.Errorf("%+v", p.events)
	}
	// While the Kustomization goes there is no build; and once nothing is asked, nothing is said.
	p.built = nil
	p.reportRetained()
	p.plan.Retain = nil
	p.reportRetained()
	if p.rollout.PendingPrune != nil || conditions.Get(p.ks, v1.PruneHeldCondition) != nil {
		t.Errorf("%+v", p.rollout)
	}
}
