package plan_test

import (
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func TestUnconfirmed(t *testing.T) {
	left := func(s *plan.Stale) { s.WasPruneOff = true }
	tests := map[string]struct {
		stale       plan.Stale
		empty       bool
		finalizing  bool
		want        string
		wantMessage string
	}{
		"nothing to confirm": {stale: free("ConfigMap/a/x"), want: "delete"},
		"left while pruning was off": {stale: with(free("ConfigMap/a/x"), left),
			want: retained(v1.RetainedAwaitingConfirmation), wantMessage: plan.LeftWhilePruneOff},
		"the path has no manifests": {stale: free("ConfigMap/a/x"), empty: true,
			want:        retained(v1.RetainedAwaitingConfirmation),
			wantMessage: "the path holds no manifests; an intended empty set is a kustomization.yaml with `resources: []`"},
		// The message is what the next pass knows it by: an empty path that passes must not confirm it.
		"left while pruning was off, and the path has no manifests": {stale: with(free("ConfigMap/a/x"), left), empty: true,
			want: retained(v1.RetainedAwaitingConfirmation), wantMessage: plan.LeftWhilePruneOff},
		"the Kustomization goes": {stale: free("ConfigMap/a/x"), empty: true, finalizing: true, want: "delete"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts(tt.stale)
			f.Build.EmptyUnproven, f.Finalizing = tt.empty, tt.finalizing
			p := plan.Prune(f)
			wantOutcome(t, p, "ConfigMap/a/x", tt.want)
			if tt.wantMessage != "" && hold(t, p, tt.stale.ID).Message != tt.wantMessage {
				t.Errorf("message %q, want %q", hold(t, p, tt.stale.ID).Message, tt.wantMessage)
			}
		})
	}
}

// What waits for a person is looked at: a person may have deleted it by hand, as the message asks for.
func TestUnconfirmedIsObserved(t *testing.T) {
	unseen := plan.Stale{ID: id("ConfigMap/a/x"), WasPruneOff: true}
	if ids := plan.NeedObservation(facts(unseen)); len(ids) != 1 {
		t.Fatalf("%v are to be observed, want ConfigMap/a/x", ids)
	}
	// Unread, it says what it said before, so that nobody forgets why it is kept.
	if h := hold(t, plan.Prune(facts(unseen)), unseen.ID); h.Message != plan.LeftWhilePruneOff {
		t.Errorf("unread: %+v", h)
	}
	gone := with(unseen, func(s *plan.Stale) { s.Seen.Presence = plan.Absent })
	wantOutcome(t, plan.Prune(facts(gone)), "ConfigMap/a/x", "drop Gone")
	foreign := with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.WasPruneOff, s.Seen.OwnerName = true, "other" })
	wantOutcome(t, plan.Prune(facts(foreign)), "ConfigMap/a/x", "drop Foreign")
}

// One that waits for a person must not keep others waiting.
func TestUnconfirmedCustomResourceStopsNoOther(t *testing.T) {
	cr := with(free("Database.example.com/a/db"), func(s *plan.Stale) { s.WasPruneOff = true })
	p := plan.Prune(facts(cr, free("ConfigMap/a/x")))
	wantOutcome(t, p, "Database.example.com/a/db", retained(v1.RetainedAwaitingConfirmation))
	wantOutcome(t, p, "ConfigMap/a/x", "delete")
}

// An entry whose object is known to be gone or someone else's leaves the inventory whatever else holds.
func TestDropNeedsNoPermission(t *testing.T) {
	gone := with(free("ConfigMap/a/gone"), func(s *plan.Stale) { s.Seen = plan.Observation{Presence: plan.Absent} })
	foreign := with(free("ConfigMap/a/foreign"), func(s *plan.Stale) { s.Seen.OwnerNamespace = "other" })
	nobodys := with(free("ConfigMap/a/nobodys"), func(s *plan.Stale) { s.Seen.OwnerName, s.Seen.OwnerNamespace = "", "" })
	for name, change := range map[string]func(*plan.Facts){
		"free":        func(*plan.Facts) {},
		"prune off":   func(f *plan.Facts) { f.Policy.Prune = false },
		"not healthy": func(f *plan.Facts) { f.Build.Healthy = false },
		"superseded":  func(f *plan.Facts) { f.Build.Newest = "v3" },
		"empty":       func(f *plan.Facts) { f.Build.EmptyUnproven = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(gone, foreign, nobodys)
			f.Build.Desired = object.Set{}
			change(&f)
			p := plan.Prune(f)
			wantOutcome(t, p, "ConfigMap/a/gone", "drop Gone")
			wantOutcome(t, p, "ConfigMap/a/foreign", "drop Foreign")
			wantOutcome(t, p, "ConfigMap/a/nobodys", "drop Foreign")
		})
	}
	p := plan.Prune(facts(foreign, nobodys))
	for i, want := range []string{"Kustomization/other/shop", "no Kustomization"} {
		if p.Drop[i].Message != want {
			t.Errorf("owner %q, want %q", p.Drop[i].Message, want)
		}
	}
}
