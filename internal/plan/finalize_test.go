package plan_test

import (
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func TestFinalize(t *testing.T) {
	const early, late = timeout - time.Second, timeout
	terminating := with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Seen.DeletedAt = now })
	leavingCR := with(free("Database.example.com/a/db"), func(s *plan.Stale) { s.Seen.DeletedAt = now })
	leavingChild := with(free("Kustomization.kustomize.toolkit.fluxcd.io/a/child"), func(s *plan.Stale) { s.Seen.DeletedAt = now })
	inUse := with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Use.Users = []string{"Pod/a/p"} })
	definition := with(free("CustomResourceDefinition.apiextensions.k8s.io/kube-things.example.com"),
		func(s *plan.Stale) { s.Use.Users = []string{"KubeThing/a/x"} })
	unread := plan.Stale{ID: id("ConfigMap/a/x"), Seen: plan.Observation{Why: "forbidden"}}
	refused := with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Refused = &plan.Refusal{At: now, Message: "no"} })
	past := with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Use.Past = []string{"ReplicaSet/a/r"} })
	self := with(free("Kustomization.kustomize.toolkit.fluxcd.io/flux-system/shop"), func(s *plan.Stale) { s.Seen.DeletedAt = now })
	tests := map[string]struct {
		stale        []plan.Stale
		since        time.Duration
		wait         bool
		wantMayGo    bool
		wantBlocking []v1.RetentionReason
		wantLeft     []v1.RetentionReason
		wantTimedOut bool
	}{
		"nothing left":                            {since: early, wantMayGo: true},
		"a deletion to send":                      {stale: []plan.Stale{free("ConfigMap/a/x")}, since: late},
		"terminating":                             {stale: []plan.Stale{terminating}, since: early, wantMayGo: true},
		"terminating, awaited":                    {stale: []plan.Stale{terminating}, since: early, wait: true, wantBlocking: reasons(v1.RetainedTerminating)},
		"terminating, given up":                   {stale: []plan.Stale{terminating}, since: late, wait: true, wantMayGo: true, wantLeft: reasons(v1.RetainedTerminating), wantTimedOut: true},
		"a terminating custom resource":           {stale: []plan.Stale{leavingCR}, since: early, wantBlocking: reasons(v1.RetainedTerminating)},
		"the same at the timeout, without a wait": {stale: []plan.Stale{leavingCR}, since: late, wantMayGo: true, wantLeft: reasons(v1.RetainedTerminating)},
		"a terminating child":                     {stale: []plan.Stale{leavingChild}, since: early, wantBlocking: reasons(v1.RetainedTerminating)},
		"in use":                                  {stale: []plan.Stale{inUse}, since: early, wantBlocking: reasons(v1.RetainedInUse)},
		"in use at the timeout":                   {stale: []plan.Stale{inUse}, since: late, wantMayGo: true, wantLeft: reasons(v1.RetainedInUse)},
		"unread":                                  {stale: []plan.Stale{unread}, since: early, wantBlocking: reasons(v1.RetainedUnverified)},
		"unread at the timeout":                   {stale: []plan.Stale{unread}, since: late, wantBlocking: reasons(v1.RetainedUnverified)},
		"refused":                                 {stale: []plan.Stale{refused}, since: early, wantBlocking: reasons(v1.RetainedDeleteFailed)},
		"refused at the timeout":                  {stale: []plan.Stale{refused}, since: late, wantBlocking: reasons(v1.RetainedDeleteFailed)},
		"says no itself":                          {stale: []plan.Stale{with(inUse, func(s *plan.Stale) { s.Seen.DisabledBy = "prune: disabled" })}, since: early, wantMayGo: true, wantLeft: reasons(v1.RetainedPruneDisabled)},
		"needs a word":                            {stale: []plan.Stale{with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Seen.When = v1.PruneConfirm })}, since: early, wantMayGo: true, wantLeft: reasons(v1.RetainedAwaitingConfirmation)},
		"in the history":                          {stale: []plan.Stale{past}, since: early, wantBlocking: reasons(v1.RetainedRevisionHistory)},
		"in the history for long":                 {stale: []plan.Stale{past}, since: late, wantMayGo: true, wantLeft: reasons(v1.RetainedRevisionHistory)},
		"own namespace":                           {stale: []plan.Stale{free("Namespace/flux-system")}, since: early, wantMayGo: true, wantLeft: reasons(v1.RetainedProtected)},
		"namespace with contents":                 {stale: []plan.Stale{free("Namespace/a"), inUse}, since: early, wantBlocking: reasons(v1.RetainedInUse, v1.RetainedProtected)},
		"the same at the timeout":                 {stale: []plan.Stale{free("Namespace/a"), inUse}, since: late, wantMayGo: true, wantLeft: reasons(v1.RetainedInUse, v1.RetainedProtected)},
		"itself":                                  {stale: []plan.Stale{self}, since: early, wantMayGo: true},
		"itself, awaited":                         {stale: []plan.Stale{self}, since: early, wait: true, wantMayGo: true},
		"itself, and others":                      {stale: []plan.Stale{self, inUse}, since: early, wantBlocking: reasons(v1.RetainedInUse)},
		// A name that begins like a system namespace makes a definition none: its custom resources may be gone soon.
		"a definition with resources": {stale: []plan.Stale{definition}, since: early, wantBlocking: reasons(v1.RetainedProtected)},
		"waits for a custom resource, which is waited for too": {
			stale: []plan.Stale{with(free("Database.example.com/a/db"), func(s *plan.Stale) { s.Seen.DeletedAt = now }), free("Deployment.apps/a/operator")},
			since: early, wantBlocking: reasons(v1.RetainedTerminating, v1.RetainedTerminating)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts(tt.stale...)
			f.Finalizing, f.Build, f.Policy.Retain = true, plan.Build{}, v1.RetainHistory
			p := plan.Prune(f)
			got := plan.Finalize(f, p, now.Add(-tt.since), tt.wait)
			if got.MayGo(p) != tt.wantMayGo || got.TimedOut != tt.wantTimedOut {
				t.Errorf("may go %t, timed out %t", got.MayGo(p), got.TimedOut)
			}
			check := func(what string, list []plan.Retention, want []v1.RetentionReason) {
				if len(list) != len(want) {
					t.Fatalf("%s: %v, want %v", what, list, want)
				}
				for i := range list {
					if list[i].Reason != want[i] {
						t.Errorf("%s %d: %s, want %s", what, i, list[i].Reason, want[i])
					}
				}
			}
			check("blocking", got.Blocking, tt.wantBlocking)
			check("left", got.Left, tt.wantLeft)
		})
	}
}

func reasons(list ...v1.RetentionReason) []v1.RetentionReason { return list }
