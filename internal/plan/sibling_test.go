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
