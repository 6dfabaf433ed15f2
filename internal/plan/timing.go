package plan

import (
	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// demands are what has to be so before an object may go. The proofs (seen, ours, not wanted, not disabled) are demanded of
// every object and are not among them.
type demands struct {
	// applied: the build without the object was applied in full.
	applied bool
	// healthy: that build was seen to be healthy.
	healthy bool
	// siblings: every other Kustomization of the source has built the revision.
	siblings bool
	// unused: nothing that runs refers to the object.
	unused bool
	// forgotten: nothing that a workload can be rolled back to refers to it.
	forgotten bool
	// word: a person allowed it.
	word bool
}

// when is the time of pruning that was set for the object itself: by its annotation, else by a rule; empty for none.
func (f Facts) when(s Stale) v1.PruneWhen {
	if s.Seen.When != "" {
		return s.Seen.When
	}
	return policy.When(f.Policy.Rules, s.ID)
}

// demands are those of the policy, unless a time was set for the object. One that is not understood demands everything
// that the policy does, and the word of a person.
func (f Facts) demands(s Stale) demands {
	inOrder := f.Policy.Order != v1.PruneAfterApply
	d := demands{applied: true, healthy: inOrder, siblings: inOrder, unused: f.Policy.NeedsUse()}
	switch f.when(s) {
	case "":
	case v1.PruneImmediate:
		return demands{}
	case v1.PruneWhenHealthy:
		d.healthy, d.siblings, d.unused = true, true, false
	case v1.PruneWhenUnused:
		d.healthy, d.siblings, d.unused = true, true, true
	default:
		d.word = true
	}
	d.forgotten = d.unused && f.Policy.Retain == v1.RetainHistory
	return d
}

// NeedTiming returns the stale objects that only the state of the rollout holds, so that nothing but an annotation on the
// object itself can let go of them now. They are worth a look now and then, and before an apply.
func NeedTiming(f Facts) []object.ID {
	if f.Finalizing {
		return nil
	}
	v := newView(f)
	var ids []object.ID
	for _, s := range sorted(f.Stale) {
		if hold := firstHold(beforeSeen, v, s); hold != nil && hold.Reason == v1.RetainedAwaitingHealth {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// InTheWay returns the objects that the apply has to wait for: those that are to go before their successor is applied, and
// are on their way out.
func InTheWay(f Facts, p Plan) []object.ID {
	immediate := object.Set{}
	for _, s := range f.Stale {
		if f.when(s) == v1.PruneImmediate {
			immediate[s.ID] = struct{}{}
		}
	}
	var ids []object.ID
	for _, d := range p.Delete {
		ids = append(ids, d.ID)
	}
	for _, r := range p.Retain {
		if immediate.Has(r.ID) && r.Reason == v1.RetainedTerminating {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
