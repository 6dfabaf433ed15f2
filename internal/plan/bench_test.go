package plan_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// large is an inventory of 10,000 objects, of which 1,000 are stale: deletable, in use, in their waves, moved. Ten other
// Kustomizations have 1,000 objects each.
func large() plan.Facts {
	kinds := []string{"ConfigMap", "Secret", "Deployment.apps", "Service", "Widget.example.com", "RoleBinding.rbac.authorization.k8s.io"}
	name := func(i int) string { return fmt.Sprintf("%s/ns-%d/object-%d", kinds[i%len(kinds)], i%50, i) }
	f := facts()
	f.Policy.Max = limit("50%")
	for i := range 9_000 {
		f.Build.Desired[id(name(i))] = struct{}{}
	}
	for i := 9_000; i < 10_000; i++ {
		s := free(name(i))
		switch i % 10 {
		case 0:
			s.Use.Users = []string{"Pod/ns/a", "Pod/ns/b"}
		case 1:
			s.Seen = plan.Observation{Presence: plan.Absent}
		case 2:
			s.Seen.DisabledBy = "prune: disabled"
		}
		f.Stale = append(f.Stale, s)
	}
	for i := range 10 {
		other := plan.Sibling{Owner: plan.Owner{Name: fmt.Sprint("other-", i), Namespace: "flux-system"}, SameSource: true, BuiltRevision: "v2",
			Inventory: object.Set{}}
		for j := range 1_000 {
			other.Inventory[id(fmt.Sprintf("ConfigMap/other-%d/object-%d", i, j))] = struct{}{}
		}
		f.Siblings.List = append(f.Siblings.List, other)
	}
	return f
}

// BenchmarkPrune decides once about the stale objects of a large inventory.
func BenchmarkPrune(b *testing.B) {
	f := large()
	b.ReportAllocs()
	for b.Loop() {
		if p := plan.Prune(f); len(p.Delete)+len(p.Retain)+len(p.Drop) != 1_000 || len(p.Drop) != 100 {
			b.Fatalf("%d deletions, %d retained, %d dropped", len(p.Delete), len(p.Retain), len(p.Drop))
		}
	}
}

// BenchmarkPass asks the planner everything that a pass asks it: what to look at, whose users matter, and what to do, twice.
func BenchmarkPass(b *testing.B) {
	f := large()
	b.ReportAllocs()
	for b.Loop() {
		plan.NeedObservation(f)
		plan.NeedTiming(f)
		plan.NeedUse(f)
		plan.Standing(f)
		plan.Prune(f)
		plan.Prune(f)
	}
}
