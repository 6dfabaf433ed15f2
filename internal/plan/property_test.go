package plan_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// population are the objects that the properties draw from: every kind of wave, and namespaces that hold others.
var population = func() []object.ID {
	ids := []object.ID{id("Namespace/a"), id("Namespace/default"), id("Namespace/kube-system"), id("Namespace/flux-system"),
		id("Namespace/holdfast-system"), id("ConfigMap/b/x"), id("ConfigMap/b/y-g5b2m5gtd8"), id("Secret/kube-system/x"), id("Database.example.com/a/y")}
	for _, wave := range waves {
		for _, name := range wave {
			ids = append(ids, id(name))
		}
	}
	return ids
}()

// often draws true nine times out of ten, so that a chain of conditions holds often enough to be tested.
func often(t *rapid.T, what string) bool { return rapid.IntRange(0, 9).Draw(t, what) != 9 }

func rarely(t *rapid.T, what string) bool { return !often(t, what) }

func drawStale(t *rapid.T, id object.ID) plan.Stale {
	s := plan.Stale{ID: id, WasPruneOff: rarely(t, "left while prune was off")}
	if often(t, "users known") {
		s.Use.Known = true
		s.Use.Users = rapid.SliceOfN(rapid.SampledFrom([]string{"Pod/a/p", "Pod/a/q"}), 0, 1).Draw(t, "users")
		s.Use.Past = rapid.SliceOfN(rapid.SampledFrom([]string{"ReplicaSet/a/p", "ReplicaSet/a/q"}), 0, 1).Draw(t, "past")
	}
	if rarely(t, "refused") {
		s.Refused = &plan.Refusal{At: now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "refused ago")) * time.Second), Message: "no"}
	}
	s.Lingering = rarely(t, "lingering")
	if rarely(t, "confirmed") {
		s.Confirmed = rapid.SampledFrom([]string{"uid-" + id.Name, "uid-" + id.Name, "another"}).Draw(t, "confirmed uid")
	}
	switch rapid.IntRange(0, 9).Draw(t, "presence") {
	case 0:
		s.Seen.Why = "forbidden"
	case 1:
		s.Seen.Presence = plan.Absent
	default:
		s.Seen.Presence = plan.Present
	}
	if s.Seen.Presence != plan.Absent {
		// An unknown one keeps traces that must not be believed.
		s.Seen.OwnerName, s.Seen.OwnerNamespace = "shop", "flux-system"
		s.Seen.UID, s.Seen.ResourceVersion = "uid-"+id.Name, "7"
		s.Seen.CreatedAt = now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "age")) * time.Second)
		if rarely(t, "annotated") {
			s.Seen.When = rapid.SampledFrom([]v1.PruneWhen{v1.PruneImmediate, v1.PruneWhenHealthy, v1.PruneWhenUnused, v1.PruneConfirm, "immediate"}).Draw(t, "when")
		}
		switch rapid.IntRange(0, 19).Draw(t, "flaw") {
		case 0:
			s.Seen.OwnerName = "other"
		case 1:
			s.Seen.OwnerNamespace = ""
		case 2:
			s.Seen.UID = ""
		case 3:
			s.Seen.ResourceVersion = ""
		case 4:
			s.Seen.DisabledBy = "prune: disabled"
		case 5:
			s.Seen.DeletedAt = now.Add(-time.Duration(rapid.IntRange(0, 400).Draw(t, "deleted ago")) * time.Second)
			s.Seen.Finalizers = []string{"f"}
		}
	}
	return s
}

func drawFacts(t *rapid.T) plan.Facts {
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(population), 0, 8, rapid.ID[object.ID]).Draw(t, "objects")
	f := facts()
	for _, id := range ids {
		if rarely(t, "desired") {
			f.Build.Desired[id] = struct{}{}
			continue
		}
		f.Stale = append(f.Stale, drawStale(t, id))
	}
	f.Policy.Prune = often(t, "prune")
	f.Policy.Order = rapid.SampledFrom([]v1.PruneOrder{"", v1.PruneAfterHealthy, v1.PruneAfterHealthy, v1.PruneAfterApply}).Draw(t, "order")
	f.Policy.Retain = rapid.SampledFrom([]v1.RetainPolicy{"", v1.RetainInUse, v1.RetainHistory, v1.RetainNone}).Draw(t, "retain")
	if rarely(t, "rules") {
		f.Policy.Rules = []v1.PruneRule{
			{Kind: "Secret", When: v1.PruneWhenHealthy}, {Kind: "ConfigMap", When: v1.PruneConfirm}, {Kind: "Deployment", When: v1.PruneImmediate},
			{Kind: "Service", When: v1.PruneWhenUnused}, {Kind: "ConfigMap", Name: "x", When: v1.PruneImmediate},
		}
	}
	if rarely(t, "limited") {
		f.Policy.Max = limit(rapid.SampledFrom([]string{"0", "1", "2", "20%", "50%"}).Draw(t, "max prune"))
	}
	f.Build.Applied = often(t, "applied")
	f.Build.Healthy = often(t, "healthy")
	f.Build.EmptyUnproven = rarely(t, "empty")
	f.Finalizing = rarely(t, "finalizing")
	f.Siblings = drawSiblings(t)
	if f.Finalizing {
		f.LeavingSince = now.Add(-time.Duration(rapid.IntRange(0, 400).Draw(t, "leaving for")) * time.Second)
		if rarely(t, "depends") {
			f.DependsOn = []plan.Owner{owner("other1")}
		}
	}
	if rarely(t, "aside") {
		f.Aside = &plan.Aside{Revision: "v2", Since: rapid.SampledFrom([]time.Time{{}, now.Add(-time.Minute)}).Draw(t, "applied since"),
			Wants: object.NewSet(rapid.SampledFrom(population).Draw(t, "wanted aside"))}
	}
	if rarely(t, "superseded") {
		f.Build.Newest = rapid.SampledFrom([]string{"", "v3"}).Draw(t, "newest")
	}
	return f
}

func drawSiblings(t *rapid.T) plan.Siblings {
	if often(t, "alone") {
		return plan.Siblings{Known: true}
	}
	out := plan.Siblings{Known: often(t, "siblings known")}
	for i := range rapid.IntRange(0, 2).Draw(t, "siblings") {
		s := plan.Sibling{
			Owner:         plan.Owner{Namespace: "flux-system", Name: fmt.Sprint("other", i)},
			SameSource:    rapid.Bool().Draw(t, "same source"),
			Suspended:     rarely(t, "suspended"),
			BuiltRevision: "v2",
			Inventory:     object.Set{},
		}
		if rarely(t, "behind") {
			s.BuiltRevision = rapid.SampledFrom([]string{"v1", ""}).Draw(t, "built")
		}
		if rarely(t, "dependent") {
			s.DependsOn = []plan.Owner{owner(rapid.SampledFrom([]string{"shop", "shop", "other0", "other1"}).Draw(t, "on"))}
		}
		s.Deleting, s.SpecPending = rarely(t, "deleting"), rarely(t, "spec pending")
		if rarely(t, "shares") {
			s.Inventory[rapid.SampledFrom(population).Draw(t, "shared")] = struct{}{}
		}
		out.List = append(out.List, s)
	}
	return out
}

// isAwaited tells whether another Kustomization still needs what this one, which is being deleted, has. At most two others are
// drawn, so that a circle is one of the two, or goes over both.
func isAwaited(f plan.Facts) bool {
	if !f.Finalizing || f.Now.Sub(f.LeavingSince) >= f.Policy.Timeout {
		return false
	}
	depends := func(all []plan.Owner, on string) bool { return slices.Contains(all, owner(on)) }
	return slices.ContainsFunc(f.Siblings.List, func(other plan.Sibling) bool {
		circle := depends(f.DependsOn, other.Name) || slices.ContainsFunc(f.Siblings.List, func(via plan.Sibling) bool {
			return depends(f.DependsOn, via.Name) && depends(via.DependsOn, other.Name)
		})
		return depends(other.DependsOn, "shop") && !circle
	})
}

// mayMove tells whether another Kustomization has the object, or may turn out to have it.
func mayMove(f plan.Facts, s plan.Stale) bool {
	if !f.Siblings.Known {
		return true
	}
	when := whenOf(f, s)
	inOrder := f.Policy.Order != v1.PruneAfterApply && when != v1.PruneImmediate || when == v1.PruneWhenHealthy || when == v1.PruneWhenUnused
	return slices.ContainsFunc(f.Siblings.List, func(other plan.Sibling) bool {
		built := other.BuiltRevision == f.Build.Revision && f.Build.Revision != ""
		if f.Finalizing {
			built = other.BuiltRevision != "" && (f.Build.Newest == "" || other.BuiltRevision == f.Build.Newest)
		}
		moving := other.SameSource && !other.Suspended && !other.Deleting && (!built || other.SpecPending)
		return other.Inventory.Has(s.ID) || moving && inOrder
	})
}

// whenOf is the time of pruning of an object: its annotation goes before the rules that drawFacts knows.
func whenOf(f plan.Facts, s plan.Stale) v1.PruneWhen {
	switch {
	case s.Seen.When != "":
		return s.Seen.When
	case len(f.Policy.Rules) == 0:
		return ""
	case s.ID.Kind == "ConfigMap" && s.ID.Name == "x":
		return v1.PruneImmediate
	}
	return map[string]v1.PruneWhen{"Secret": v1.PruneWhenHealthy, "ConfigMap": v1.PruneConfirm, "Deployment": v1.PruneImmediate,
		"Service": v1.PruneWhenUnused}[s.ID.Kind]
}

// mayGo is the rule for deletion, in the order and words of the design and not of the guards: every condition has to
// hold. It says nothing about the reason.
func mayGo(f plan.Facts, s plan.Stale) bool {
	preconditions := s.Seen.UID != "" && s.Seen.ResourceVersion != ""
	due := s.Refused == nil || f.Now.Sub(s.Refused.At) >= f.Policy.RetryInterval
	return asked(f, s) && preconditions && unused(f, s) && due && !needsWord(f, s)
}

// confirmed tells whether a person allowed the deletion of this very object.
func confirmed(s plan.Stale) bool { return s.Confirmed != "" && s.Confirmed == s.Seen.UID }

// asked tells whether the revision asks for the deletion and the object itself allows it: what is left to hold it are
// users, the API server, the order and a person.
func asked(f plan.Facts, s plan.Stale) bool {
	seen := s.Seen.Presence == plan.Present
	ours := s.Seen.OwnerName == f.Owner.Name && s.Seen.OwnerNamespace == f.Owner.Namespace
	willing := s.Seen.DisabledBy == "" && s.Seen.DeletedAt.IsZero()
	newest := f.Finalizing || f.Build.Revision != "" && f.Build.Revision == f.Build.Newest
	meant := confirmed(s) || !s.WasPruneOff && (f.Finalizing || !f.Build.EmptyUnproven)
	if isAwaited(f) {
		return false
	}
	return f.Policy.Prune && seen && ours && willing && newest && meant && inTime(f, s) && !protectedNamespace(f, s) && !mayMove(f, s) && !wasThere(f, s)
}

// wasThere tells whether going back would delete what the revision that was passed over did not make.
func wasThere(f plan.Facts, s plan.Stale) bool {
	return f.Aside != nil && f.Aside.Wants.Has(s.ID) && (f.Aside.Since.IsZero() || s.Seen.CreatedAt.Before(f.Aside.Since))
}

// inTime tells whether the rollout is far enough.
func inTime(f plan.Facts, s plan.Stale) bool {
	if f.Finalizing {
		return true
	}
	switch whenOf(f, s) {
	case v1.PruneImmediate:
		return true
	case v1.PruneWhenHealthy, v1.PruneWhenUnused:
		return f.Build.Applied && f.Build.Healthy
	}
	return f.Build.Applied && (f.Build.Healthy || f.Policy.Order == v1.PruneAfterApply)
}

// unused tells whether nobody needs the object, as far as the policy cares.
func unused(f plan.Facts, s plan.Stale) bool {
	cares := f.Policy.Retain != v1.RetainNone && f.Policy.Order != v1.PruneAfterApply
	switch whenOf(f, s) {
	case v1.PruneImmediate, v1.PruneWhenHealthy:
		cares = false
	case v1.PruneWhenUnused:
		cares = true
	}
	if cares && f.Policy.Retain == v1.RetainHistory && len(s.Use.Past) > 0 {
		return false
	}
	container := s.ID.Kind == "CustomResourceDefinition" || s.ID.Kind == "Namespace"
	return s.Use.Known && len(s.Use.Users) == 0 || !container && !cares
}

// needsWord tells whether a person has to allow the deletion and has not: it is marked, or part of a prune that is too
// large, in which neither generated config counts nor what stayed for its users before.
func needsWord(f plan.Facts, s plan.Stale) bool {
	if confirmed(s) {
		return false
	}
	if when := whenOf(f, s); when == v1.PruneConfirm || when == "immediate" {
		return true
	}
	counted := func(s plan.Stale) bool {
		if s.Seen.Presence == plan.Unknown { // it may well be there, and ours
			s.Seen = plan.Observation{Presence: plan.Present, OwnerName: f.Owner.Name, OwnerNamespace: f.Owner.Namespace}
		}
		return asked(f, s) && !confirmed(s) && !s.Lingering && !strings.HasSuffix(s.ID.Name, "-g5b2m5gtd8")
	}
	n := 0
	for _, other := range f.Stale {
		if counted(other) {
			n++
		}
	}
	of := float64(len(f.Stale) + len(f.Build.Desired))
	most, limited := map[string]float64{"0": 0, "1": 1, "2": 2, "20%": max(1, of*0.2), "50%": max(1, of*0.5)}[f.Policy.Max.String()]
	return limited && !f.Finalizing && counted(s) && float64(n) > math.Ceil(most-1e-9)
}

func protectedNamespace(f plan.Facts, s plan.Stale) bool {
	if s.ID.Kind != "Namespace" {
		return false
	}
	if slices.Contains([]string{"default", "kube-system", f.Owner.Namespace, f.Owner.ControllerNamespace}, s.ID.Name) {
		return true
	}
	for id := range f.Build.Desired {
		if id.Namespace == s.ID.Name {
			return true
		}
	}
	return slices.ContainsFunc(f.Stale, func(other plan.Stale) bool {
		return other.ID.Namespace == s.ID.Name && other.Seen.Presence != plan.Absent
	})
}

// mustWait is the order of deletion: an object waits for one of an awaited, earlier wave that goes, or is going.
func mustWait(f plan.Facts, s plan.Stale) bool {
	return slices.ContainsFunc(f.Stale, func(first plan.Stale) bool {
		w := waveOf(first.ID)
		if (w != 0 && w != 3) || w >= waveOf(s.ID) || first.Refused != nil {
			return false
		}
		going := first
		going.Seen.DeletedAt = time.Time{}
		leaving := !first.Seen.DeletedAt.IsZero() && f.Now.Sub(first.Seen.DeletedAt) < f.Policy.Timeout
		if !first.Seen.DeletedAt.IsZero() {
			// On its way out already: neither its users nor its preconditions matter any more.
			return leaving && asked(f, going)
		}
		return mayGo(f, going)
	})
}

func TestDeletionAgreesWithTheDesign(t *testing.T) {
	deleted, kept, waited := 0, 0, 0
	// Few draws have an object that waits for another one. It goes on until every outcome was seen.
	for round := 0; round < 50 && (round == 0 || deleted == 0 || kept == 0 || waited == 0); round++ {
		rapid.Check(t, func(t *rapid.T) {
			f := drawFacts(t)
			p := plan.Prune(f)
			for _, s := range f.Stale {
				want := mayGo(f, s) && !mustWait(f, s)
				got := slices.ContainsFunc(p.Delete, func(d plan.Deletion) bool { return d.ID == s.ID })
				if got != want {
					t.Fatalf("%s: deleted %t, want %t\n%s", s.ID, got, want, printPlan(p))
				}
				switch {
				case got:
					deleted++
				case mayGo(f, s):
					waited++
				default:
					kept++
				}
			}
		})
	}
	if deleted == 0 || kept == 0 || waited == 0 {
		t.Errorf("%d deleted, %d kept, %d waited for others: the draws test nothing", deleted, kept, waited)
	}
}

// The invariants, each on its own.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		p := plan.Prune(f)
		lists := map[object.ID]int{}
		stale := map[object.ID]plan.Stale{}
		for _, s := range f.Stale {
			stale[s.ID] = s
		}
		for _, d := range p.Delete {
			lists[d.ID]++
			if s := stale[d.ID]; d.UID() == "" || d.UID() != s.Seen.UID || d.ResourceVersion() == "" || d.ResourceVersion() != s.Seen.ResourceVersion {
				t.Fatalf("%s is deleted as %q %q, but seen as %+v", d.ID, d.UID(), d.ResourceVersion(), s.Seen)
			}
		}
		for _, d := range p.Drop {
			lists[d.ID]++
			if s := stale[d.ID]; s.Seen.Presence == plan.Unknown {
				t.Fatalf("%s is unknown and dropped", d.ID)
			}
		}
		for _, r := range p.Retain {
			lists[r.ID]++
			if r.Reason == "" || r.Until == "" {
				t.Fatalf("%s is kept without a reason or an end: %+v", r.ID, r.Hold)
			}
		}
		for id := range f.Build.Desired {
			if lists[id] != 0 {
				t.Fatalf("%s is desired and in the plan", id)
			}
		}
		for id := range stale {
			if lists[id] != 1 {
				t.Fatalf("%s is in %d lists", id, lists[id])
			}
		}
		if len(lists) != len(stale) {
			t.Fatalf("%d objects in the plan, %d stale", len(lists), len(stale))
		}
	})
}

// Same facts, same plan: in any order, at any time again, and without a trace in the facts.
func TestPlanIsAFunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		want := printPlan(plan.Prune(f))
		if got := printPlan(plan.Prune(f)); got != want {
			t.Fatal("another plan the second time")
		}
		before := fmt.Sprintf("%+v", f)
		shuffled := f
		shuffled.Stale = rapid.Permutation(f.Stale).Draw(t, "order of the facts")
		for i := range shuffled.Stale {
			slices.Reverse(shuffled.Stale[i].Use.Users)
		}
		if got := printPlan(plan.Prune(shuffled)); got != want {
			t.Fatalf("another plan for another order:\n%s", cmp.Diff(want, got))
		}
		for i := range shuffled.Stale {
			slices.Reverse(shuffled.Stale[i].Use.Users)
		}
		if after := fmt.Sprintf("%+v", f); after != before {
			t.Fatal("the facts were changed")
		}
	})
}

// What the shell is told to look at is all that the plan asks for.
func TestNeedsAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := drawFacts(t)
		full.Siblings.Why = "forbidden"
		f := full
		f.Stale = slices.Clone(full.Stale)
		for i := range f.Stale {
			f.Stale[i].Seen, f.Stale[i].Use = plan.Observation{}, plan.Use{}
		}
		observed := object.NewSet(append(plan.NeedObservation(f), plan.NeedTiming(f)...)...)
		for i := range f.Stale {
			if observed.Has(f.Stale[i].ID) {
				f.Stale[i].Seen = full.Stale[i].Seen
			}
		}
		used := object.NewSet(plan.NeedUse(f)...)
		for i := range f.Stale {
			if used.Has(f.Stale[i].ID) {
				f.Stale[i].Use = full.Stale[i].Use
				f.Stale[i].Use.Why = "forbidden"
			}
		}
		for _, r := range plan.Prune(f).Retain {
			if r.Reason == v1.RetainedUnverified && (strings.Contains(r.Message, "nobody looked") || r.Message == "it was not read") {
				// An unknown object of the draw carries its own reason.
				t.Fatalf("%s is unverified since %s", r.ID, r.Message)
			}
		}
	})
}

// printPlan is a plan in full.
func printPlan(p plan.Plan) string {
	var b strings.Builder
	for _, d := range p.Delete {
		fmt.Fprintf(&b, "delete %s uid=%s rv=%s\n", spell(d.ID), d.UID(), d.ResourceVersion())
	}
	for _, d := range p.Drop {
		fmt.Fprintf(&b, "drop   %s %s", spell(d.ID), d.Reason)
		if d.Message != "" {
			fmt.Fprintf(&b, ": %s", d.Message)
		}
		b.WriteString("\n")
	}
	for _, r := range p.Release {
		fmt.Fprintf(&b, "release %s uid=%s rv=%s\n", spell(r.ID), r.UID(), r.ResourceVersion())
	}
	for _, r := range p.Retain {
		fmt.Fprintf(&b, "keep   %s %s", spell(r.ID), r.Reason)
		if r.Message != "" {
			fmt.Fprintf(&b, ": %s", r.Message)
		}
		if len(r.Users) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(r.Users, ", "))
		}
		fmt.Fprintf(&b, "; until %s\n", r.Until)
	}
	if p.Recheck > 0 {
		fmt.Fprintf(&b, "look again after %s\n", p.Recheck)
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}
