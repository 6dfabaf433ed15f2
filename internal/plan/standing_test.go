package plan_test

import (
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func TestStanding(t *testing.T) {
	const name = "ServiceAccount/shop/bot"
	for what, tt := range map[string]struct {
		change        func(*plan.Stale)
		leaving, kept bool
	}{
		"free":             {leaving: true},
		"in use":           {change: func(s *plan.Stale) { s.Use.Users = []string{"Pod/shop/p"} }, leaving: true},
		"gone":             {change: func(s *plan.Stale) { s.Seen = plan.Observation{Presence: plan.Absent} }},
		"someone else's":   {change: func(s *plan.Stale) { s.Seen.OwnerName = "other" }},
		"unread":           {change: func(s *plan.Stale) { s.Seen = plan.Observation{} }, kept: true},
		"says no":          {change: func(s *plan.Stale) { s.Seen.DisabledBy = "prune: disabled" }, kept: true},
		"on its way out":   {change: func(s *plan.Stale) { s.Seen.DeletedAt = now }, kept: true},
		"waits for a word": {change: func(s *plan.Stale) { s.Seen.When = v1.PruneConfirm }, kept: true},
		"goes at once":     {change: func(s *plan.Stale) { s.Seen.When = v1.PruneImmediate }, leaving: true},
	} {
		s := free(name)
		if tt.change != nil {
			tt.change(&s)
		}
		got := plan.Standing(facts(s))
		if got.Leaving.Has(s.ID) != tt.leaving || got.Kept.Has(s.ID) != tt.kept {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestIsCustom(t *testing.T) {
	for group, want := range map[string]bool{"": false, "apps": false, "networking.k8s.io": false, "gateway.networking.k8s.io": true, "example.com": true} {
		if got := plan.IsCustom(object.ID{Group: group, Kind: "Thing"}); got != want {
			t.Errorf("%q is custom: %t, want %t", group, got, want)
		}
	}
}
