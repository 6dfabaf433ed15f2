package plan

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// dependents are the other Kustomizations that keep one that is being deleted from deleting its objects.
type dependents struct {
	// of are those that say that they depend on it, by name.
	of []Sibling
	// release are the Kustomizations whose deletion lets go of one of them: they themselves, and whoever made them.
	release object.Set
}

// dependentsOf finds who depends on a Kustomization that is being deleted. One that it depends on itself, be it over others,
// is not among them: in a circle there is no order to keep.
func dependentsOf(f Facts) dependents {
	if !f.Finalizing || !f.Siblings.Known {
		return dependents{}
	}
	upstream := f.upstream()
	var out dependents
	for _, other := range f.Siblings.List {
		if slices.Contains(other.DependsOn, f.Owner.key()) && !upstream[other.key()] {
			out.of = append(out.of, other)
		}
	}
	slices.SortFunc(out.of, func(a, b Sibling) int { return strings.Compare(a.name(), b.name()) })
	out.release = f.madeOf(out.of)
	return out
}

// upstream is everything that the Kustomization depends on, over as many steps as it takes.
func (f Facts) upstream() map[Owner]bool {
	on := map[Owner][]Owner{}
	for _, s := range f.Siblings.List {
		on[s.key()] = s.DependsOn
	}
	seen := map[Owner]bool{}
	for next := slices.Clone(f.DependsOn); len(next) > 0; next = next[1:] {
		if !seen[next[0]] {
			seen[next[0]] = true
			next = append(next, on[next[0]]...)
		}
	}
	return seen
}

// madeOf returns the identities of the given Kustomizations, and of those whose inventories hold them, and so on.
func (f Facts) madeOf(all []Sibling) object.Set {
	made := object.Set{}
	for _, s := range all {
		made[s.id()] = struct{}{}
	}
	for grown := len(made) > 0; grown; {
		grown = false
		for _, s := range f.Siblings.List {
			if !made.Has(s.id()) && holdsAny(s.Inventory, made) {
				made[s.id()], grown = struct{}{}, true
			}
		}
	}
	return made
}

func holdsAny(inventory, wanted object.Set) bool {
	for id := range wanted {
		if inventory.Has(id) {
			return true
		}
	}
	return false
}

// dependentsExist: what depends on a Kustomization may need its objects to go: a custom resource its operator. So it deletes
// nothing before they are gone, but for what made them. The wait is bounded by the timeout, since one that is suspended, or
// that nobody deletes, may stay for ever.
func dependentsExist(f view, s Stale) *Hold {
	switch {
	case !f.Finalizing || !f.MayAwaitDependents():
		return nil
	case !f.Siblings.Known:
		return siblingsUnknown(f)
	case len(f.dependents.of) == 0 || f.dependents.release.Has(s.ID):
		return nil
	}
	users := make([]string, 0, len(f.dependents.of))
	for _, d := range f.dependents.of {
		users = append(users, d.name())
	}
	return &Hold{Reason: v1.RetainedDependentsExist, Users: users, Message: Dependents(f.Facts),
		Until: fmt.Sprintf("nothing depends on %s any more, or %s have passed", f.Owner.name(), f.Policy.Timeout)}
}

func siblingsUnknown(f view) *Hold {
	return &Hold{Reason: v1.RetainedUnverified, Until: "they can be listed",
		Message: "the other Kustomizations could not be listed: " + orElse(f.Siblings.Why, "nobody looked")}
}

// MayAwaitDependents tells whether the time to wait for dependents is not over.
func (f Facts) MayAwaitDependents() bool { return f.Now.Before(f.LeavingSince.Add(f.Policy.Timeout)) }

// maxDependents bounds the dependents that a message names.
const maxDependents = 5

// Dependents says which Kustomizations depend on the one that is being deleted, and why one of them may stay; empty if none
// does, or if they could not be listed.
func Dependents(f Facts) string {
	all := dependentsOf(f).of
	if len(all) == 0 {
		return ""
	}
	var names []string
	for _, d := range all[:min(len(all), maxDependents)] {
		switch {
		case d.Deleting:
			names = append(names, d.name()+" (being deleted)")
		case d.Suspended:
			names = append(names, d.name()+" (suspended)")
		default:
			names = append(names, d.name())
		}
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(all) == 1 {
		return text + " depends on it"
	}
	return text + " depend on it"
}
