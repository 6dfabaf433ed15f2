package plan_test

import (
	"strings"
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func TestMovedElsewhere(t *testing.T) {
	const name = "ConfigMap/shop/a"
	other := func(change func(*plan.Sibling)) plan.Sibling {
		s := plan.Sibling{Owner: plan.Owner{Namespace: "flux-system", Name: "inner"},
			SameSource: true, BuiltRevision: "v2", Inventory: object.Set{}}
		change(&s)
		return s
	}
	for what, c := range map[string]struct {
		sibling func(*plan.Sibling)
		change  func(*plan.Facts)
		want    string
		names   string
	}{
		"built the revision, lacks the object": {sibling: func(*plan.Sibling) {}, want: "delete"},
		"has not built the revision": {sibling: func(s *plan.Sibling) { s.BuiltRevision = "v1" },
			want: "MovedElsewhere", names: "flux-system/inner has not built v2"},
		"never built anything": {sibling: func(s *plan.Sibling) { s.BuiltRevision = "" },
			want: "MovedElsewhere", names: "flux-system/inner has not built v2"},
		"behind, but suspended": {sibling: func(s *plan.Sibling) { s.BuiltRevision, s.Suspended = "v1", true }, want: "delete"},
		"behind, but on another source": {sibling: func(s *plan.Sibling) { s.BuiltRevision, s.SameSource = "x", false },
			want: "delete"},
		"has the object": {sibling: func(s *plan.Sibling) { s.Inventory = object.NewSet(id(name)) },
			want: "MovedElsewhere", names: "flux-system/inner has it in its inventory"},
		"has the object, on another source and suspended": {sibling: func(s *plan.Sibling) {
			s.Inventory, s.SameSource, s.Suspended = object.NewSet(id(name)), false, true
		}, want: "MovedElsewhere", names: "flux-system/inner has it"},
		"behind, in Flux's order": {sibling: func(s *plan.Sibling) { s.BuiltRevision = "v1" },
			change: func(f *plan.Facts) { f.Policy.Order = v1.PruneAfterApply }, want: "delete"},
		"has the object, in Flux's order": {sibling: func(s *plan.Sibling) { s.Inventory = object.NewSet(id(name)) },
			change: func(f *plan.Facts) { f.Policy.Order = v1.PruneAfterApply }, want: "MovedElsewhere"},
		"behind, but being deleted": {sibling: func(s *plan.Sibling) { s.BuiltRevision, s.Deleting = "v1", true }, want: "delete"},
		"has the object, and is being deleted": {sibling: func(s *plan.Sibling) { s.Inventory, s.Deleting = object.NewSet(id(name)), true },
			want: "MovedElsewhere", names: "flux-system/inner has it"},
		"built the revision with an older spec": {sibling: func(s *plan.Sibling) { s.SpecPending = true },
			want: "MovedElsewhere", names: "flux-system/inner has not built its changed spec"},
		"with an older spec, but suspended": {sibling: func(s *plan.Sibling) { s.SpecPending, s.Suspended = true, true }, want: "delete"},
		"behind, while this one is deleted": {sibling: func(s *plan.Sibling) { s.BuiltRevision = "v1" },
			change: finalizing("v2"), want: "MovedElsewhere", names: "flux-system/inner has not built v2"},
		"up to date, while this one is deleted": {sibling: func(*plan.Sibling) {}, change: finalizing("v2"), want: "delete"},
		"never built anything, while this one is deleted": {sibling: func(s *plan.Sibling) { s.BuiltRevision = "" },
			change: finalizing(""), want: "MovedElsewhere", names: "flux-system/inner has not built a revision of the source"},
		"built something, while this one is deleted and the source is gone": {sibling: func(s *plan.Sibling) { s.BuiltRevision = "v1" },
			change: finalizing(""), want: "delete"},
		"both are deleted": {sibling: func(s *plan.Sibling) { s.BuiltRevision, s.Deleting = "", true }, change: finalizing("v2"), want: "delete"},
		"has the object, while this one is deleted": {sibling: func(s *plan.Sibling) { s.Inventory = object.NewSet(id(name)) },
			change: func(f *plan.Facts) { f.Finalizing = true }, want: "MovedElsewhere"},
		"could not be listed": {sibling: func(*plan.Sibling) {},
			change: func(f *plan.Facts) { f.Siblings = plan.Siblings{Why: "list kustomizations: forbidden"} },
			want:   "Unverified", names: "list kustomizations: forbidden"},
	} {
		t.Run(what, func(t *testing.T) {
			f := facts(free(name))
			f.Siblings.List = []plan.Sibling{other(c.sibling)}
			if c.change != nil {
				c.change(&f)
			}
			p := plan.Prune(f)
			wantOutcome(t, p, name, c.want)
			if c.names != "" && !strings.Contains(hold(t, p, id(name)).Message, c.names) {
				t.Errorf("message %q does not say %q", hold(t, p, id(name)).Message, c.names)
			}
		})
	}
}

// finalizing makes the facts those of a deletion, with the revision that the source has.
func finalizing(newest string) func(*plan.Facts) {
	return func(f *plan.Facts) {
		f.Finalizing, f.Build = true, plan.Build{Newest: newest}
	}
}

// TestC13LeavingSiblings: a Kustomization that left the source together with its directory can't build the revision. Neither it nor
// what left with it waits for that, unless it stays for a reason of its own, or for somebody else.
func TestC13LeavingSiblings(t *testing.T) {
	const child, second, config = "Kustomization.kustomize.toolkit.fluxcd.io/flux-system/child", "Kustomization.kustomize.toolkit.fluxcd.io/flux-system/second", "ConfigMap/shop/a"
	const goesAfterThem = "Terminating" // Kustomizations go first
	behind := func(name, uid string) plan.Sibling {
		return plan.Sibling{Owner: plan.Owner{Namespace: "flux-system", Name: name}, UID: uid, SameSource: true, BuiltRevision: "v1", Inventory: object.Set{}}
	}
	for what, c := range map[string]struct {
		change func(*plan.Facts)
		want   string
	}{
		"two leave together":                {change: func(*plan.Facts) {}, want: goesAfterThem},
		"while this one is deleted":         {change: finalizing("v2"), want: goesAfterThem},
		"one is of another cluster":         {change: func(f *plan.Facts) { f.Stale[0].Seen.UID = "another" }, want: "MovedElsewhere"},
		"one has no UID":                    {change: func(f *plan.Facts) { f.Stale[0].Seen.UID, f.Siblings.List[0].UID = "", "" }, want: "MovedElsewhere"},
		"one is not seen":                   {change: func(f *plan.Facts) { f.Stale[0].Seen.Presence = plan.Unknown }, want: "MovedElsewhere"},
		"one is someone else's":             {change: func(f *plan.Facts) { f.Stale[0].Seen.OwnerName = "another" }, want: "MovedElsewhere"},
		"one is not to be pruned":           {change: func(f *plan.Facts) { f.Stale[0].Seen.DisabledBy = "prune: disabled" }, want: "MovedElsewhere"},
		"one left while pruning was off":    {change: func(f *plan.Facts) { f.Stale[0].WasPruneOff = true }, want: "MovedElsewhere"},
		"one was let go of":                 {change: func(f *plan.Facts) { f.Stale[0].Released = true }, want: "MovedElsewhere"},
		"one waits for a person":            {change: func(f *plan.Facts) { f.Stale[0].Seen.When = v1.PruneConfirm }, want: "MovedElsewhere"},
		"one waited for a person, who came": {change: func(f *plan.Facts) { f.Stale[0].Seen.When, f.Stale[0].Confirmed = v1.PruneConfirm, "uid-"+child }, want: goesAfterThem},
		"one was taken over by the failed revision": {change: func(f *plan.Facts) {
			f.Aside = &plan.Aside{Revision: "v3", Wants: object.NewSet(id(child))}
		}, want: "MovedElsewhere"},
		"one moved to a third": {change: func(f *plan.Facts) {
			third := behind("third", "uid-third")
			third.BuiltRevision, third.Inventory = "v2", object.NewSet(id(child))
			f.Siblings.List = append(f.Siblings.List, third)
		}, want: "MovedElsewhere"},
		"a third is behind": {change: func(f *plan.Facts) { f.Siblings.List = append(f.Siblings.List, behind("third", "uid-third")) }, want: "MovedElsewhere"},
		"one has what left": {change: func(f *plan.Facts) { f.Siblings.List[0].Inventory = object.NewSet(id(config)) }, want: "MovedElsewhere"},
		"it is not stale":   {change: func(f *plan.Facts) { f.Stale = f.Stale[1:] }, want: "MovedElsewhere"},
	} {
		t.Run(what, func(t *testing.T) {
			f := facts(free(child), free(second), free(config))
			f.Siblings.List = []plan.Sibling{behind("child", "uid-"+child), behind("second", "uid-"+second)}
			c.change(&f)
			p := plan.Prune(f)
			wantOutcome(t, p, config, c.want)
			if c.want == goesAfterThem {
				wantOutcome(t, p, child, "delete")
				wantOutcome(t, p, second, "delete")
			}
		})
	}
}
