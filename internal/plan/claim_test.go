package plan_test

import (
	"slices"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// An object in two inventories is claimed twice, unless one of the two lets go of it or has not said yet what it wants.
func TestClaims(t *testing.T) {
	x, y := id("ConfigMap/shop/x"), id("ConfigMap/shop/y")
	sibling := func(change func(*plan.Sibling)) plan.Sibling {
		s := plan.Sibling{Owner: plan.Owner{Name: "other", Namespace: "flux-system"}, SameSource: true, BuiltRevision: "v2", Inventory: object.NewSet(x)}
		change(&s)
		return s
	}
	tests := map[string]struct {
		change func(*plan.Sibling)
		want   bool
	}{
		"the same revision":                {func(*plan.Sibling) {}, true},
		"another source":                   {func(s *plan.Sibling) { s.SameSource, s.BuiltRevision = false, "main" }, true},
		"suspended":                        {func(s *plan.Sibling) { s.Suspended, s.BuiltRevision = true, "v1" }, true},
		"it has another object":            {func(s *plan.Sibling) { s.Inventory = object.NewSet(y) }, false},
		"it keeps it from pruning":         {func(s *plan.Sibling) { s.Kept = object.NewSet(x) }, false},
		"it has not built the revision":    {func(s *plan.Sibling) { s.BuiltRevision = "v1" }, false},
		"its spec changed":                 {func(s *plan.Sibling) { s.SpecPending = true }, false},
		"its spec changed, another source": {func(s *plan.Sibling) { s.SameSource, s.SpecPending = false, true }, false},
		"it is being deleted":              {func(s *plan.Sibling) { s.Deleting = true }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts()
			f.Build.Desired = object.NewSet(x, id("ConfigMap/shop/own"))
			f.Siblings.List = []plan.Sibling{sibling(tt.change)}
			if got := plan.Claims(f); (len(got) == 1) != tt.want || tt.want && (got[0].ID != x || got[0].By.Name != "other") {
				t.Errorf("claims are %v", got)
			}
		})
	}
}

// The claims are in a fixed order, and name the first of several others.
func TestClaimsAreSorted(t *testing.T) {
	x, y := id("ConfigMap/shop/x"), id("ConfigMap/shop/y")
	f := facts()
	f.Build.Desired = object.NewSet(y, x)
	for _, name := range []string{"c", "b", "d"} {
		f.Siblings.List = append(f.Siblings.List, plan.Sibling{Owner: plan.Owner{Name: name, Namespace: "flux-system"}, Inventory: object.NewSet(x, y)})
	}
	b := plan.Owner{Name: "b", Namespace: "flux-system"}
	if got := plan.Claims(f); !slices.Equal(got, []plan.Claim{{ID: x, By: b}, {ID: y, By: b}}) {
		t.Errorf("claims are %v", got)
	}
	if b.String() != "Kustomization/flux-system/b" {
		t.Errorf("it is called %s", b)
	}
}
