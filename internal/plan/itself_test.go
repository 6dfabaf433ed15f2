package plan_test

import (
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// A Kustomization whose own manifest left the source stays, and holds nothing else up, however the deletion is asked for.
func TestNeverPrunesItself(t *testing.T) {
	const self, account = "Kustomization.kustomize.toolkit.fluxcd.io/flux-system/shop", "ServiceAccount/flux-system/runner"
	for name, tt := range map[string]struct {
		self   func(*plan.Stale)
		change func(*plan.Facts)
	}{
		"it left the source":   {},
		"at once":              {self: func(s *plan.Stale) { s.Seen.When = v1.PruneImmediate }},
		"confirmed":            {self: func(s *plan.Stale) { s.Confirmed = s.Seen.UID }},
		"it is deleted":        {self: func(s *plan.Stale) { s.Seen.DeletedAt = now }},
		"it is being deleted":  {self: func(s *plan.Stale) { s.Seen.DeletedAt = now }, change: finalizing("v2")},
		"it alone is the mass": {change: func(f *plan.Facts) { f.Policy.Max = limit("1") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := free(self)
			if tt.self != nil {
				tt.self(&s)
			}
			f := facts(s, free(account))
			if tt.change != nil {
				tt.change(&f)
			}
			p := plan.Prune(f)
			wantOutcome(t, p, self, "Protected")
			wantOutcome(t, p, account, "delete")
		})
	}
	for _, other := range []string{"Kustomization.kustomize.toolkit.fluxcd.io/flux-system/child", "Kustomization.example.com/flux-system/shop"} {
		wantOutcome(t, plan.Prune(facts(free(other))), other, "delete")
	}
}
