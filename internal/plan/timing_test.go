package plan_test

import (
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// Each time of pruning, against each thing that may hold an object.
func TestTimes(t *testing.T) {
	holds := map[string]func(*plan.Facts){
		"nothing":     func(*plan.Facts) {},
		"not applied": func(f *plan.Facts) { f.Build.Applied, f.Build.Healthy = false, false },
		"not healthy": func(f *plan.Facts) { f.Build.Healthy = false },
		"in use":      func(f *plan.Facts) { f.Stale[0].Use.Users = []string{"Pod/a/p"} },
		"history": func(f *plan.Facts) {
			f.Policy.Retain, f.Stale[0].Use.Past = v1.RetainHistory, []string{"ReplicaSet/a/r"}
		},
		"superseded": func(f *plan.Facts) { f.Build.Newest = "v3" },
		"disabled":   func(f *plan.Facts) { f.Stale[0].Seen.DisabledBy = "prune: disabled" },
		"foreign":    func(f *plan.Facts) { f.Stale[0].Seen.OwnerName = "other" },
		"unread":     func(f *plan.Facts) { f.Stale[0].Seen = plan.Observation{When: f.Stale[0].Seen.When} },
		"shared": func(f *plan.Facts) {
			f.Siblings.List = []plan.Sibling{{Owner: plan.Owner{Name: "o"}, Inventory: object.NewSet(f.Stale[0].ID)}}
		},
		"sibling behind": func(f *plan.Facts) {
			f.Siblings.List = []plan.Sibling{{Owner: plan.Owner{Name: "o"}, SameSource: true, BuiltRevision: "v1"}}
		},
	}
	const always = "delete"
	want := map[v1.PruneWhen]map[string]string{
		"":                  {"nothing": always, "not applied": "AwaitingHealth", "not healthy": "AwaitingHealth", "in use": "InUse", "history": "RevisionHistory", "sibling behind": "MovedElsewhere"},
		v1.PruneImmediate:   {"nothing": always, "not applied": always, "not healthy": always, "in use": always, "history": always, "sibling behind": always},
		v1.PruneWhenHealthy: {"nothing": always, "not applied": "AwaitingHealth", "not healthy": "AwaitingHealth", "in use": always, "history": always, "sibling behind": "MovedElsewhere"},
		v1.PruneWhenUnused:  {"nothing": always, "not applied": "AwaitingHealth", "not healthy": "AwaitingHealth", "in use": "InUse", "history": "RevisionHistory", "sibling behind": "MovedElsewhere"},
		v1.PruneConfirm:     {"nothing": "AwaitingConfirmation", "not applied": "AwaitingHealth", "not healthy": "AwaitingHealth", "in use": "AwaitingConfirmation", "history": "AwaitingConfirmation", "sibling behind": "MovedElsewhere"},
	}
	// No time takes away a proof.
	proofs := map[string]string{"superseded": "Superseded", "disabled": "PruneDisabled", "foreign": "drop Foreign", "shared": "MovedElsewhere", "unread": "Unverified"}
	for when, outcomes := range want {
		for name, hold := range holds {
			expected, ok := outcomes[name]
			if !ok {
				expected = proofs[name]
			}
			f := facts(with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Seen.When = when }))
			hold(&f)
			if got := outcome(t, plan.Prune(f), id("ConfigMap/a/x")); got != expected {
				t.Errorf("%s, %q: %s, want %s", name, when, got, expected)
			}
		}
	}
}

// The annotation on the object goes before the rules, and a time for the object before the order of the Kustomization.
func TestTimesHavePrecedence(t *testing.T) {
	rules := []v1.PruneRule{{Kind: "ConfigMap", When: v1.PruneImmediate}}
	for name, tt := range map[string]struct {
		when  v1.PruneWhen
		rules []v1.PruneRule
		order v1.PruneOrder
		want  string
	}{
		"rule":                           {rules: rules, want: "delete"},
		"annotation and rule":            {rules: rules, when: v1.PruneWhenHealthy, want: "AwaitingHealth"},
		"Flux's order":                   {order: v1.PruneAfterApply, want: "delete"},
		"Flux's order and an annotation": {order: v1.PruneAfterApply, when: v1.PruneWhenUnused, want: "AwaitingHealth"},
		"Flux's order and Confirm":       {order: v1.PruneAfterApply, when: v1.PruneConfirm, want: "AwaitingConfirmation"},
	} {
		f := facts(with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Seen.When = tt.when }))
		f.Build.Healthy, f.Policy.Rules, f.Policy.Order = false, tt.rules, tt.order
		if got := outcome(t, plan.Prune(f), id("ConfigMap/a/x")); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// The apply waits for what is to go before it and is on its way out, and for nothing else.
func TestInTheWay(t *testing.T) {
	immediate := func(s *plan.Stale) { s.Seen.When = v1.PruneImmediate }
	leaving := func(s *plan.Stale) { s.Seen.DeletedAt = now }
	f := facts(
		with(free("ConfigMap/a/now"), immediate), with(free("ConfigMap/a/leaving"), immediate, leaving),
		with(free("ConfigMap/a/disabled"), immediate, func(s *plan.Stale) { s.Seen.DisabledBy = "prune: disabled" }),
		with(free("ConfigMap/a/other"), leaving), free("ConfigMap/a/waits"),
	)
	f.Build.Applied, f.Build.Healthy = false, false
	got := object.NewSet(plan.InTheWay(f, plan.Prune(f))...)
	if len(got) != 2 || !got.Has(id("ConfigMap/a/now")) || !got.Has(id("ConfigMap/a/leaving")) {
		t.Errorf("%v", got)
	}
}

// What only the rollout holds is worth a look, since an annotation may let go of it; what a policy holds is not.
func TestNeedTiming(t *testing.T) {
	f := facts(plan.Stale{ID: id("ConfigMap/a/x")})
	for name, tt := range map[string]struct {
		change func(*plan.Facts)
		want   int
	}{
		"healthy":     {change: func(*plan.Facts) {}},
		"not healthy": {change: func(f *plan.Facts) { f.Build.Healthy = false }, want: 1},
		"not applied": {change: func(f *plan.Facts) { f.Build.Applied = false }, want: 1},
		"prune off":   {change: func(f *plan.Facts) { f.Build.Healthy, f.Policy.Prune = false, false }},
		"superseded":  {change: func(f *plan.Facts) { f.Build.Healthy, f.Build.Newest = false, "v3" }},
		"finalizing":  {change: func(f *plan.Facts) { f.Build.Healthy, f.Finalizing = false, true }},
	} {
		changed := f
		tt.change(&changed)
		if got := plan.NeedTiming(changed); len(got) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
