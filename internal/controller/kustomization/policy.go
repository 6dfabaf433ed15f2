package kustomization

import (
	"errors"
	"maps"
	"strings"

	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/policy"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// resolved is the policy of the Kustomization. What is wrong with it was refused by checkSpec; where that does not count, while
// the Kustomization is being deleted, the careful value stands in.
func (p *pass) resolved() policy.Policy {
	resolved, _ := policy.Resolve(p.ks, p.Defaults)
	return resolved
}

// policy is what bears on deletion.
func (p *pass) policy() plan.Policy {
	resolved := p.resolved()
	return plan.Policy{
		Prune:         p.ks.Spec.Prune,
		Order:         resolved.Order,
		Retain:        resolved.Retain,
		Max:           resolved.Max,
		Rules:         resolved.Rules,
		Timeout:       p.timeout(),
		RetryInterval: p.retryInterval(),
	}
}

// checkPolicy refuses a policy that can't be understood: pruning by another one than was meant is no way out.
func (p *pass) checkPolicy() *outcome {
	_, problems := policy.Resolve(p.ks, p.Defaults)
	if unknown := policy.UnknownAnnotations(p.ks); len(unknown) > 0 {
		problems = append(problems, errors.New("there is no annotation "+strings.Join(unknown, ", ")))
	}
	if len(problems) == 0 {
		return nil
	}
	return &outcome{state: stateStalled, reason: v1.ReasonInvalidPolicy,
		message: strings.ReplaceAll(errors.Join(problems...).Error(), "\n", "; ") + "; nothing is applied or pruned until it is corrected"}
}

// samePolicy tells whether two versions of a Kustomization say the same about pruning in their annotations. Those don't
// count in the generation.
func samePolicy(a, b *v1.Kustomization) bool {
	return maps.Equal(policy.Annotations(a), policy.Annotations(b))
}
