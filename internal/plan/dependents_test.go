package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// owner is a Kustomization of the namespace flux-system.
func owner(name string) plan.Owner { return plan.Owner{Namespace: "flux-system", Name: name} }

// relative is another Kustomization that depends on the named ones, on a source of its own.
func relative(name string, on ...string) plan.Sibling {
	s := plan.Sibling{Owner: owner(name), BuiltRevision: "x", Inventory: object.Set{}}
	for _, n := range on {
		s.DependsOn = append(s.DependsOn, owner(n))
	}
	return s
}

func childID(name string) string {
	return "Kustomization.kustomize.toolkit.fluxcd.io/flux-system/" + name
}

func TestDependentsExist(t *testing.T) {
	const x = "ConfigMap/a/x"
	suspended, leaving := relative("usage", "shop"), relative("usage", "shop")
	suspended.Suspended, leaving.Deleting = true, true
	maker := relative("maker")
	maker.Inventory = object.NewSet(id(childID("usage")))
	grandmaker := relative("grandmaker")
	grandmaker.Inventory = object.NewSet(id(childID("maker")))
	elsewhere := relative("usage")
	elsewhere.DependsOn = []plan.Owner{{Namespace: "other", Name: "shop"}}
	for what, c := range map[string]struct {
		siblings  []plan.Sibling
		dependsOn []plan.Owner
		since     time.Duration
		change    func(*plan.Facts)
		want      map[string]string
		says      string
	}{
		"nobody depends on it":            {siblings: []plan.Sibling{relative("usage")}, want: map[string]string{x: "delete"}},
		"one depends on another namesake": {siblings: []plan.Sibling{elsewhere}, want: map[string]string{x: "delete"}},
		"one depends on it": {siblings: []plan.Sibling{relative("usage", "shop")}, want: map[string]string{x: "DependentsExist"},
			says: "Kustomization/flux-system/usage depends on it"},
		"it is not being deleted": {siblings: []plan.Sibling{relative("usage", "shop")}, want: map[string]string{x: "delete"},
			change: func(f *plan.Facts) { f.Finalizing = false }},
		"a moment before the timeout": {siblings: []plan.Sibling{relative("usage", "shop")}, since: timeout - time.Second,
			want: map[string]string{x: "DependentsExist"}},
		"at the timeout": {siblings: []plan.Sibling{relative("usage", "shop")}, since: timeout, want: map[string]string{x: "delete"}},
		"suspended": {siblings: []plan.Sibling{suspended}, want: map[string]string{x: "DependentsExist"},
			says: "Kustomization/flux-system/usage (suspended) depends on it"},
		"suspended, at the timeout": {siblings: []plan.Sibling{suspended}, since: timeout, want: map[string]string{x: "delete"}},
		"being deleted": {siblings: []plan.Sibling{leaving}, want: map[string]string{x: "DependentsExist"},
			says: "Kustomization/flux-system/usage (being deleted) depends on it"},
		"two, by name": {siblings: []plan.Sibling{relative("z", "shop"), relative("b", "shop")}, want: map[string]string{x: "DependentsExist"},
			says: "Kustomization/flux-system/b, Kustomization/flux-system/z depend on it"},
		"six": {siblings: []plan.Sibling{relative("a", "shop"), relative("b", "shop"), relative("c", "shop"), relative("d", "shop"),
			relative("e", "shop"), relative("f", "shop")}, want: map[string]string{x: "DependentsExist"},
			says: "Kustomization/flux-system/e and 1 more depend on it"},
		"each other": {siblings: []plan.Sibling{relative("usage", "shop")}, dependsOn: []plan.Owner{owner("usage")},
			want: map[string]string{x: "delete"}},
		"in a circle of three": {siblings: []plan.Sibling{relative("usage", "shop"), relative("base", "usage")},
			dependsOn: []plan.Owner{owner("base")}, want: map[string]string{x: "delete"}},
		"in a circle, and one that is not": {siblings: []plan.Sibling{relative("usage", "shop"), relative("free", "shop")},
			dependsOn: []plan.Owner{owner("usage")}, want: map[string]string{x: "DependentsExist"}, says: "system/free depends on it"},
		"its own child": {siblings: []plan.Sibling{relative("usage", "shop")},
			want: map[string]string{x: "DependentsExist", childID("usage"): "delete"}},
		"made by its child": {siblings: []plan.Sibling{relative("usage", "shop"), maker},
			want: map[string]string{x: "DependentsExist", childID("maker"): "delete", childID("plain"): "DependentsExist"}},
		"made by the child of its child": {siblings: []plan.Sibling{relative("usage", "shop"), grandmaker, maker},
			want: map[string]string{x: "DependentsExist", childID("grandmaker"): "delete"}},
		"not listed": {change: func(f *plan.Facts) { f.Siblings = plan.Siblings{Why: "forbidden"} },
			want: map[string]string{x: "Unverified"}, says: "could not be listed: forbidden"},
		"pruning off": {siblings: []plan.Sibling{relative("usage", "shop")}, change: func(f *plan.Facts) { f.Policy.Prune = false },
			want: map[string]string{x: "PruneOff"}},
		"in Flux's order too": {siblings: []plan.Sibling{relative("usage", "shop")},
			change: func(f *plan.Facts) { f.Policy.Order = v1.PruneAfterApply }, want: map[string]string{x: "DependentsExist"}},
	} {
		t.Run(what, func(t *testing.T) {
			f := facts()
			for name := range c.want {
				f.Stale = append(f.Stale, free(name))
			}
			f.Finalizing, f.LeavingSince, f.DependsOn = true, now.Add(-c.since), c.dependsOn
			f.Siblings.List = c.siblings
			if c.change != nil {
				c.change(&f)
			}
			p := plan.Prune(f)
			for name, want := range c.want {
				wantOutcome(t, p, name, want)
			}
			if c.says != "" && !strings.Contains(hold(t, p, id(x)).Message, c.says) {
				t.Errorf("message %q does not say %q", hold(t, p, id(x)).Message, c.says)
			}
		})
	}
}

// What is not deleted yet is worth no look, and keeps the Kustomization, also after the time that others may hold it.
func TestDependentsBlock(t *testing.T) {
	f := facts(plan.Stale{ID: id("ConfigMap/a/x")})
	f.Finalizing, f.LeavingSince = true, now
	f.Siblings.List = []plan.Sibling{relative("usage", "shop")}
	if need := plan.NeedObservation(f); len(need) > 0 {
		t.Errorf("to be looked at: %v", need)
	}
	p := plan.Prune(f)
	if bye := plan.Finalize(f, p, now.Add(-2*timeout), false); bye.MayGo(p) {
		t.Error("it goes")
	}
	if h := hold(t, p, id("ConfigMap/a/x")); len(h.Users) != 1 || h.Users[0] != "Kustomization/flux-system/usage" {
		t.Errorf("held by %v", h.Users)
	}
	if said := plan.Dependents(facts()); said != "" {
		t.Errorf("without a deletion: %s", said)
	}
	if p.Recheck == 0 {
		t.Error("nobody looks again")
	}
}

// Whatever depends on what, if every Kustomization is deleted at once all of them go before any timeout, and none that is not
// in a circle goes before what depends on it.
func TestDependentsNeverDeadlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "Kustomizations")
		all := map[string]plan.Sibling{}
		for i := range n {
			s := relative(fmt.Sprint("k", i))
			s.Deleting = true
			for j := range n {
				if rapid.IntRange(0, 3).Draw(t, "depends") == 0 {
					s.DependsOn = append(s.DependsOn, owner(fmt.Sprint("k", j)))
				}
			}
			all[s.Name] = s
		}
		depends := closure(all)
		for len(all) > 0 {
			gone := false
			for name, self := range all {
				f := facts(free("ConfigMap/a/x"))
				f.Owner, f.DependsOn, f.Finalizing, f.LeavingSince = self.Owner, self.DependsOn, true, now
				f.Stale[0].Seen.OwnerName = name
				for other, s := range all {
					if other != name {
						f.Siblings.List = append(f.Siblings.List, s)
					}
				}
				if len(plan.Prune(f).Delete) == 0 {
					continue
				}
				for other, s := range all {
					if direct(s, name) && !depends[name][other] && other != name {
						t.Fatalf("%s goes while %s depends on it", name, other)
					}
				}
				delete(all, name)
				gone = true
			}
			if !gone {
				t.Fatalf("all wait for each other: %v", all)
			}
		}
	})
}

func direct(s plan.Sibling, on string) bool {
	for _, d := range s.DependsOn {
		if d.Name == on {
			return true
		}
	}
	return false
}

// closure says who depends on whom over any number of steps, by squaring the relation until nothing is added.
func closure(all map[string]plan.Sibling) map[string]map[string]bool {
	c := map[string]map[string]bool{}
	for name, s := range all {
		c[name] = map[string]bool{}
		for other := range all {
			c[name][other] = direct(s, other)
		}
	}
	for range all {
		for a := range all {
			for b := range all {
				for via := range all {
					c[a][b] = c[a][b] || c[a][via] && c[via][b]
				}
			}
		}
	}
	return c
}
