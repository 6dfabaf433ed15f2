package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// rollout is a story of one Kustomization, told step by step. The clock moves only when it is told to.
type rollout struct {
	v1.RolloutStatus
	at        time.Time
	soak      time.Duration
	unwatched bool
}

func (r *rollout) after(d time.Duration) *rollout { r.at = r.at.Add(d); return r }

func (r *rollout) begin(revision, digest string, generation int64) *rollout {
	r.RolloutStatus = plan.Begin(r.RolloutStatus, plan.Want{Revision: revision, Digest: digest, Generation: generation}, r.at)
	return r
}

func (r *rollout) request(revision, digest string) *rollout {
	r.RolloutStatus = plan.Begin(r.RolloutStatus, plan.Want{Revision: revision, Digest: digest, Generation: 1, Requested: true}, r.at)
	return r
}

func (r *rollout) applied() *rollout {
	r.RolloutStatus = plan.Applied(r.RolloutStatus, r.at, timeout)
	return r
}

func (r *rollout) judge(v plan.Verdict) *rollout {
	r.RolloutStatus = plan.Judge(r.RolloutStatus, v, r.at, plan.Terms{Timeout: timeout, Soak: r.soak, Unwatched: r.unwatched})
	return r
}

// unseen: nobody looked at the health for a while.
func (r *rollout) unseen() *rollout { r.unwatched = true; return r }

// needs: the policy asks for another time from now on.
func (r *rollout) needs(soak time.Duration) *rollout { r.soak = soak; return r }

func (r *rollout) wait() *rollout   { r.RolloutStatus = plan.Wait(r.RolloutStatus, r.at); return r }
func (r *rollout) refuse() *rollout { r.RolloutStatus = plan.Refuse(r.RolloutStatus, r.at); return r }

// fresh is a rollout of v1 that was applied at the time zero of the story, and is being verified.
func fresh() *rollout {
	r := &rollout{at: now}
	return r.begin("v1", "d1", 1).applied()
}

func at(d time.Duration) *metav1.Time { t := metav1.NewTime(now.Add(d)); return &t }

func TestPhases(t *testing.T) {
	const minute = time.Minute
	tests := map[string]struct {
		story        *rollout
		wantPhase    v1.Phase
		wantDeadline *metav1.Time
		wantVerified bool
		wantSince    *metav1.Time
		wantHealthy  string
	}{
		"applying": {story: (&rollout{at: now}).begin("v1", "d1", 1), wantPhase: v1.PhaseApplying, wantSince: at(0)},
		"verifying": {story: fresh(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(timeout), wantSince: at(0)},
		"healthy": {story: fresh().after(minute).judge(plan.Healthy),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(minute), wantHealthy: "v1"},
		"not yet healthy": {story: fresh().after(timeout - 1).judge(plan.InProgress),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(timeout), wantSince: at(0)},
		"deadline reached": {story: fresh().after(timeout).judge(plan.InProgress),
			wantPhase: v1.PhaseHeld, wantDeadline: at(timeout), wantSince: at(timeout)},
		"failed before the deadline": {story: fresh().after(minute).judge(plan.Failed),
			wantPhase: v1.PhaseHeld, wantDeadline: at(timeout), wantSince: at(minute)},
		"healthy at the deadline": {story: fresh().after(timeout).judge(plan.Healthy),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(timeout), wantHealthy: "v1"},
		"held stays held": {story: fresh().judge(plan.Failed).after(minute).judge(plan.InProgress),
			wantPhase: v1.PhaseHeld, wantDeadline: at(timeout), wantSince: at(0)},
		"held recovers": {story: fresh().judge(plan.Failed).after(minute).judge(plan.Healthy),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(minute), wantHealthy: "v1"},
		"a healthy one that turns unhealthy has its own deadline": {
			story:     fresh().judge(plan.Healthy).after(10 * minute).judge(plan.InProgress),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(10*minute + timeout), wantVerified: true, wantSince: at(10 * minute), wantHealthy: "v1"},
		"and may miss it": {
			story:     fresh().judge(plan.Healthy).after(10 * minute).judge(plan.InProgress).after(timeout).judge(plan.InProgress),
			wantPhase: v1.PhaseHeld, wantDeadline: at(10*minute + timeout), wantVerified: true, wantSince: at(10*minute + timeout), wantHealthy: "v1"},

		"same objects while verifying: the deadline stays": {story: fresh().after(minute).begin("v2", "d1", 1).applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(timeout), wantSince: at(0)},
		"same objects while healthy: so is the new revision": {
			story:     fresh().judge(plan.Healthy).after(minute).begin("v2", "d1", 1).applied(),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(0), wantHealthy: "v2"},
		"same objects while held: the verdict stays": {story: fresh().judge(plan.Failed).after(minute).begin("v2", "d1", 1).applied(),
			wantPhase: v1.PhaseHeld, wantDeadline: at(timeout), wantSince: at(0)},
		"other objects interrupt at once": {story: fresh().after(minute).begin("v2", "d2", 1),
			wantPhase: v1.PhaseApplying, wantSince: at(minute)},
		"other objects, applied": {story: fresh().judge(plan.Healthy).after(minute).begin("v2", "d2", 1).applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(minute + timeout), wantSince: at(minute), wantHealthy: "v1"},
		"a new generation interrupts": {story: fresh().judge(plan.Healthy).after(minute).begin("v1", "d1", 2),
			wantPhase: v1.PhaseApplying, wantSince: at(minute), wantHealthy: "v1"},
		"back to what was healthy is verified again": {
			story:     fresh().judge(plan.Healthy).begin("v2", "d2", 1).applied().judge(plan.Failed).after(minute).begin("v3", "d1", 1).applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(minute + timeout), wantSince: at(minute), wantHealthy: "v1"},

		"request while verifying": {story: fresh().after(minute).request("v1", "d1").applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(minute + timeout), wantSince: at(minute)},
		"request while held": {story: fresh().judge(plan.Failed).after(minute).request("v1", "d1").applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(minute + timeout), wantSince: at(minute)},
		"request while healthy changes nothing": {story: fresh().judge(plan.Healthy).after(minute).request("v1", "d1").applied(),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(0), wantHealthy: "v1"},

		"refused": {story: fresh().after(minute).refuse(), wantPhase: v1.PhaseRefused, wantDeadline: at(timeout), wantSince: at(minute)},
		"refused twice": {story: fresh().after(minute).refuse().after(minute).refuse(),
			wantPhase: v1.PhaseRefused, wantDeadline: at(timeout), wantSince: at(minute)},
		"after a refusal the same objects are applied again": {
			story:     fresh().judge(plan.Healthy).refuse().after(minute).begin("v1", "d1", 1),
			wantPhase: v1.PhaseApplying, wantVerified: true, wantSince: at(minute), wantHealthy: "v1"},
		"after a refusal other objects are unproven": {
			story:     fresh().judge(plan.Healthy).refuse().after(minute).begin("v2", "d2", 1),
			wantPhase: v1.PhaseApplying, wantSince: at(minute), wantHealthy: "v1"},

		// A dependency that has to catch up comes with every commit of a monorepo. It interrupts nothing.
		"waiting": {story: fresh().after(minute).wait(), wantPhase: v1.PhaseWaiting, wantDeadline: at(timeout), wantSince: at(minute)},
		"verifying, after a wait": {story: fresh().after(minute).wait().after(minute).begin("v2", "d1", 1).applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(timeout), wantSince: at(2 * minute)},
		"held, after a wait": {story: fresh().after(timeout).judge(plan.InProgress).wait().after(minute).begin("v2", "d1", 1).applied().judge(plan.InProgress),
			wantPhase: v1.PhaseHeld, wantDeadline: at(timeout), wantSince: at(timeout + minute)},
		"healthy, after a wait": {story: fresh().judge(plan.Healthy).wait().after(minute).begin("v2", "d1", 1).applied(),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(minute), wantHealthy: "v2"},
		"applying, after a wait": {story: (&rollout{at: now}).begin("v1", "d1", 1).wait().after(minute).begin("v1", "d1", 1),
			wantPhase: v1.PhaseApplying, wantSince: at(minute)},
		"half applied over a healthy one, after a wait": {
			story:     fresh().judge(plan.Healthy).begin("v2", "d2", 1).wait().after(minute).begin("v3", "d1", 1),
			wantPhase: v1.PhaseApplying, wantSince: at(minute), wantHealthy: "v1"},
		"back to it half applied, after a wait": {
			story:     fresh().judge(plan.Healthy).begin("v2", "d2", 1).begin("v3", "d1", 1).wait().after(minute).begin("v3", "d1", 1),
			wantPhase: v1.PhaseApplying, wantSince: at(minute), wantHealthy: "v1"},
		"a first wait": {story: (&rollout{at: now}).wait().after(minute).begin("v1", "d1", 1), wantPhase: v1.PhaseApplying, wantSince: at(minute)},
		"other objects after a wait": {story: fresh().judge(plan.Healthy).wait().after(minute).begin("v2", "d2", 1).applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(minute + timeout), wantSince: at(minute), wantHealthy: "v1"},
		"a new generation after a wait": {story: fresh().judge(plan.Healthy).wait().after(minute).begin("v1", "d1", 2).applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(minute + timeout), wantSince: at(minute), wantHealthy: "v1"},
		"request after a wait while verifying": {story: fresh().wait().after(minute).request("v1", "d1").applied(),
			wantPhase: v1.PhaseVerifying, wantDeadline: at(minute + timeout), wantSince: at(minute)},
		"request after a wait while healthy": {story: fresh().judge(plan.Healthy).wait().after(minute).request("v1", "d1").applied(),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(minute), wantHealthy: "v1"},
		"refused before it was applied, then a wait": {story: (&rollout{at: now}).begin("v1", "d1", 1).refuse().wait().after(minute).begin("v1", "d1", 1),
			wantPhase: v1.PhaseApplying, wantSince: at(minute)},
		"healthy, a refusal, then a wait": {story: fresh().judge(plan.Healthy).refuse().wait().after(minute).begin("v1", "d1", 1),
			wantPhase: v1.PhaseHealthy, wantVerified: true, wantSince: at(minute), wantHealthy: "v1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.story.RolloutStatus
			healthy := ""
			if got.LastHealthy != nil {
				healthy = got.LastHealthy.Revision
			}
			type summary struct {
				Phase           v1.Phase
				Deadline, Since *metav1.Time
				Verified        bool
				Healthy         string
			}
			want := summary{tt.wantPhase, tt.wantDeadline, tt.wantSince, tt.wantVerified, tt.wantHealthy}
			if diff := cmp.Diff(want, summary{got.Phase, got.Deadline, got.Since, got.Verified, healthy}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What runs and what was last healthy move with what was seen, not with what is wanted.
func TestRunningAndLastHealthy(t *testing.T) {
	r := fresh().after(time.Minute).judge(plan.Healthy)
	want := &v1.RevisionDigest{Revision: "v1", Digest: "d1", At: at(time.Minute)}
	if diff := cmp.Diff(want, r.LastHealthy); diff != "" {
		t.Error(diff)
	}
	r.after(time.Minute).begin("v2", "d2", 1)
	if r.Running.Revision != "v1" || r.Wanted.Revision != "v2" || r.LastHealthy.Revision != "v1" {
		t.Errorf("before the apply: running %s, wanted %s, healthy %s", r.Running.Revision, r.Wanted.Revision, r.LastHealthy.Revision)
	}
	r.applied().judge(plan.Failed)
	if r.Running.Revision != "v2" || !r.Running.At.Equal(at(2*time.Minute)) || r.LastHealthy.Revision != "v1" {
		t.Errorf("after it: running %+v, healthy %s", r.Running, r.LastHealthy.Revision)
	}
	r.after(time.Minute).begin("v3", "d2", 1)
	if r.Running.Revision != "v3" || !r.Running.At.Equal(at(2*time.Minute)) {
		t.Errorf("the same objects run since %s as %s", r.Running.At, r.Running.Revision)
	}
	r.judge(plan.Healthy).after(time.Minute).begin("v4", "d2", 1).applied().judge(plan.Healthy)
	if r.LastHealthy.Revision != "v4" || !r.LastHealthy.At.Equal(at(3*time.Minute)) {
		t.Errorf("healthy %+v", r.LastHealthy)
	}
	r.begin("v5", "d2", 1) // nothing is left to apply or to judge: the status must not wait for the next interval to say so
	if r.Running.Revision != "v5" || r.LastHealthy.Revision != "v5" || !r.LastHealthy.At.Equal(at(3*time.Minute)) {
		t.Errorf("running %+v, healthy %+v", r.Running, r.LastHealthy)
	}
}

// With a soak time a build counts as healthy once it stayed so for that long. A relapse, a time in which nobody looked, other
// objects and a refusal start it over; a commit that renders the same objects, and a wait, do not.
func TestSoak(t *testing.T) {
	const minute = time.Minute
	soaking := func() *rollout {
		r := fresh()
		r.soak = 3 * minute
		return r.after(minute).judge(plan.Healthy)
	}
	tests := map[string]struct {
		story        *rollout
		wantPhase    v1.Phase
		wantEnd      time.Duration
		wantVerified bool
	}{
		"begins":                                {soaking(), v1.PhaseHealthy, 4 * minute, false},
		"goes on":                               {soaking().after(3*minute - 1).judge(plan.Healthy), v1.PhaseHealthy, 4 * minute, false},
		"ends":                                  {soaking().after(3 * minute).judge(plan.Healthy), v1.PhaseHealthy, 0, true},
		"a relapse":                             {soaking().after(minute).judge(plan.InProgress), v1.PhaseVerifying, 0, false},
		"a failure":                             {soaking().after(minute).judge(plan.Failed), v1.PhaseHeld, 0, false},
		"healthy again":                         {soaking().after(minute).judge(plan.InProgress).after(minute).judge(plan.Healthy), v1.PhaseHealthy, 6 * minute, false},
		"the same objects":                      {soaking().after(minute).begin("v2", "d1", 1).applied().judge(plan.Healthy), v1.PhaseHealthy, 4 * minute, false},
		"a wait":                                {soaking().wait().after(minute).begin("v2", "d1", 1).judge(plan.Healthy), v1.PhaseHealthy, 4 * minute, false},
		"a request":                             {soaking().after(minute).request("v1", "d1").judge(plan.Healthy), v1.PhaseHealthy, 4 * minute, false},
		"other objects":                         {soaking().after(minute).begin("v2", "d2", 1), v1.PhaseApplying, 0, false},
		"a refusal":                             {soaking().after(minute).refuse().begin("v1", "d1", 1).applied().judge(plan.Healthy), v1.PhaseHealthy, 5 * minute, false},
		"not looked at":                         {soaking().after(2 * minute).unseen().judge(plan.Healthy), v1.PhaseHealthy, 6 * minute, false},
		"a longer one":                          {soaking().after(3 * minute).judge(plan.Healthy).needs(5 * minute).judge(plan.Healthy), v1.PhaseHealthy, 9 * minute, false},
		"a longer one, while it is not healthy": {soaking().after(3 * minute).judge(plan.Healthy).needs(5 * minute).judge(plan.InProgress), v1.PhaseVerifying, 0, false},
		"a longer one that passed": {soaking().after(3 * minute).judge(plan.Healthy).needs(5 * minute).judge(plan.Healthy).after(5 * minute).judge(plan.Healthy).
			judge(plan.Healthy), v1.PhaseHealthy, 0, true},
		"a shorter one":           {soaking().after(3 * minute).judge(plan.Healthy).needs(minute).judge(plan.Healthy), v1.PhaseHealthy, 0, true},
		"a relapse after its end": {soaking().after(3 * minute).judge(plan.Healthy).judge(plan.InProgress).judge(plan.Healthy), v1.PhaseHealthy, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.story.RolloutStatus
			end := plan.SoakEnd(got, tt.story.soak)
			if tt.wantEnd == 0 != end.IsZero() || !end.IsZero() && !end.Equal(now.Add(tt.wantEnd)) {
				t.Errorf("ends at %s, want %s after the beginning", end, tt.wantEnd)
			}
			if got.Phase != tt.wantPhase || got.Verified != tt.wantVerified || (got.LastHealthy != nil) != (tt.wantVerified || strings.HasPrefix(name, "a longer one")) {
				t.Errorf("%s, verified %t, last healthy %v", got.Phase, got.Verified, got.LastHealthy)
			}
		})
	}
}

// The time is never shorter than what was asked for, though the API stores whole seconds.
func TestSoakIsRoundedUp(t *testing.T) {
	r := fresh()
	r.soak = time.Minute
	if end := plan.SoakEnd(r.after(time.Millisecond).judge(plan.Healthy).RolloutStatus, r.soak); end.Before(now.Add(time.Minute + time.Millisecond)) {
		t.Errorf("ends at %s", end)
	}
}

// A commit every minute must not keep a revision that never gets healthy from its verdict.
func TestFrequentCommitsDontPutOffTheDeadline(t *testing.T) {
	r := fresh()
	for range int(timeout / time.Minute) {
		r.after(time.Minute).wait().begin("next", "d1", 1).applied().judge(plan.InProgress)
	}
	if r.Phase != v1.PhaseHeld {
		t.Errorf("phase %s after %s", r.Phase, timeout)
	}
}

// Every step returns a new state and leaves the one it was given alone; taken twice it changes nothing; and Verified is
// only ever said of the digest that is wanted.
func TestPhaseProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &rollout{at: now}
		verified := map[string]bool{}
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			r.after(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
			before := *r.DeepCopy()
			step := rapid.SampledFrom([]string{"begin", "begin", "applied", "applied", "judge", "judge", "judge", "wait", "refuse"}).Draw(t, "step")
			if i == 0 {
				step = "begin"
			}
			var do func(v1.RolloutStatus) v1.RolloutStatus
			switch step {
			case "begin":
				want := plan.Want{
					Revision:   rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "revision"),
					Digest:     rapid.SampledFrom([]string{"d1", "d2"}).Draw(t, "digest"),
					Generation: rapid.Int64Range(1, 2).Draw(t, "generation"),
				}
				if r.Wanted == nil || want.Digest != r.Wanted.Digest || want.Generation != r.WantedGeneration {
					verified = map[string]bool{}
				}
				do = func(s v1.RolloutStatus) v1.RolloutStatus { return plan.Begin(s, want, r.at) }
			case "applied":
				do = func(s v1.RolloutStatus) v1.RolloutStatus { return plan.Applied(s, r.at, timeout) }
			case "judge":
				if r.Phase != v1.PhaseVerifying && r.Phase != v1.PhaseHealthy && r.Phase != v1.PhaseHeld {
					continue
				}
				v := rapid.SampledFrom([]plan.Verdict{plan.InProgress, plan.Healthy, plan.Failed}).Draw(t, "verdict")
				if v == plan.Healthy {
					verified[r.Wanted.Digest] = true
				}
				do = func(s v1.RolloutStatus) v1.RolloutStatus { return plan.Judge(s, v, r.at, plan.Terms{Timeout: timeout}) }
			case "wait":
				do = func(s v1.RolloutStatus) v1.RolloutStatus { return plan.Wait(s, r.at) }
			case "refuse":
				do = func(s v1.RolloutStatus) v1.RolloutStatus { return plan.Refuse(s, r.at) }
			}
			next := do(r.RolloutStatus)
			if diff := cmp.Diff(before, r.RolloutStatus); diff != "" {
				t.Fatalf("%s changed what it was given: %s", step, diff)
			}
			if diff := cmp.Diff(next, do(next)); diff != "" {
				t.Fatalf("%s, repeated: %s", step, diff)
			}
			if next.Verified != verified[next.Wanted.Digest] {
				t.Fatalf("%s: verified %t, want %t", step, next.Verified, verified[next.Wanted.Digest])
			}
			if next.Phase == v1.PhaseVerifying && next.Deadline == nil {
				t.Fatalf("%s: a verification without a deadline", step)
			}
			if next.Phase == v1.PhaseHealthy && !next.Verified {
				t.Fatalf("%s: healthy, but not verified", step)
			}
			r.RolloutStatus = next
		}
	})
}
