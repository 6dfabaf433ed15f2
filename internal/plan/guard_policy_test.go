package plan_test

import (
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// What holds every stale object alike: the policy, the source and the health of the build.
func TestPolicyGuards(t *testing.T) {
	const x = "ConfigMap/a/x"
	tests := map[string]struct {
		change      func(*plan.Facts)
		want        string
		wantMessage string
		wantUntil   string
		wantRecheck time.Duration
	}{
		"all let go": {change: func(*plan.Facts) {}, want: "delete", wantRecheck: time.Second},
		"prune off": {change: func(f *plan.Facts) { f.Policy.Prune = false },
			want: "PruneOff", wantUntil: "spec.prune is true"},
		"prune off, not healthy": {change: func(f *plan.Facts) { f.Policy.Prune, f.Build.Healthy = false, false },
			want: "PruneOff", wantUntil: "spec.prune is true"},
		"not healthy": {change: func(f *plan.Facts) { f.Build.Healthy = false },
			want: "AwaitingHealth", wantUntil: "v2 is healthy"},
		"not healthy, order AfterHealthy": {change: func(f *plan.Facts) { f.Build.Healthy, f.Policy.Order = false, v1.PruneAfterHealthy },
			want: "AwaitingHealth", wantUntil: "v2 is healthy"},
		"not healthy, order AfterApply": {change: func(f *plan.Facts) { f.Build.Healthy, f.Policy.Order = false, v1.PruneAfterApply },
			want: "delete", wantRecheck: time.Second},
		"not healthy, retain None": {change: func(f *plan.Facts) { f.Build.Healthy, f.Policy.Retain = false, v1.RetainNone },
			want: "AwaitingHealth", wantUntil: "v2 is healthy"},
		"superseded": {change: func(f *plan.Facts) { f.Build.Newest = "v3" },
			want: "Superseded", wantMessage: "the source has v3", wantUntil: "v3 is built", wantRecheck: time.Second},
		"superseded, order AfterApply": {change: func(f *plan.Facts) { f.Build.Newest, f.Policy.Order = "v3", v1.PruneAfterApply },
			want: "Superseded", wantMessage: "the source has v3", wantUntil: "v3 is built", wantRecheck: time.Second},
		"the newest revision is not known": {change: func(f *plan.Facts) { f.Build.Newest = "" },
			want: "Superseded", wantMessage: "the newest revision of the source is not known", wantUntil: "it is known and built", wantRecheck: time.Second},
		"the build has no revision": {change: func(f *plan.Facts) { f.Build.Revision, f.Build.Newest = "", "" },
			want: "Superseded", wantMessage: "the newest revision of the source is not known", wantUntil: "it is known and built", wantRecheck: time.Second},
		"finalizing needs no build": {change: func(f *plan.Facts) { f.Build, f.Finalizing = plan.Build{}, true },
			want: "delete", wantRecheck: time.Second},
		"finalizing with prune off": {change: func(f *plan.Facts) { f.Finalizing, f.Policy.Prune = true, false },
			want: "PruneOff", wantUntil: "spec.prune is true"},
		"no facts but the object": {change: func(f *plan.Facts) { *f = plan.Facts{Now: f.Now, Owner: f.Owner, Stale: f.Stale} },
			want: "PruneOff", wantUntil: "spec.prune is true"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts(free(x))
			tt.change(&f)
			p := plan.Prune(f)
			wantOutcome(t, p, x, tt.want)
			if tt.want != "delete" {
				got := hold(t, p, id(x))
				if got.Message != tt.wantMessage || got.Until != tt.wantUntil {
					t.Errorf("message %q until %q, want %q and %q", got.Message, got.Until, tt.wantMessage, tt.wantUntil)
				}
			}
			if p.Recheck != tt.wantRecheck {
				t.Errorf("look again after %s, want %s", p.Recheck, tt.wantRecheck)
			}
			if needs := len(plan.NeedObservation(f)) > 0; needs != (tt.want == "delete") {
				t.Errorf("object is to be observed: %t", needs)
			}
		})
	}
}
