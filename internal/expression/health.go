package expression

import (
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/apis/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/health"
)

// Health judges objects by the expressions of one spec. A nil one has none.
type Health struct {
	byKind map[schema.GroupKind][]rule
}

// rule says that an object is in a state when an expression is true of it.
type rule struct {
	status health.Status
	when   *program
}

// NewHealth compiles the expressions. An error names the entry, in Flux's words.
func NewHealth(checks []kustomize.CustomHealthCheck) (*Health, error) {
	h := &Health{byKind: make(map[schema.GroupKind][]rule, len(checks))}
	for i, check := range checks {
		// An entry without a kind is for the whole group. The version does not count.
		gk := schema.FromAPIVersionAndKind(check.APIVersion, check.Kind).GroupKind()
		if _, taken := h.byKind[gk]; taken {
			return nil, fmt.Errorf("duplicate custom health check for GroupKind %s at healthchecks[%d]", gk, i)
		}
		rules, err := rulesOf(check.HealthCheckExpressions)
		if err != nil {
			return nil, fmt.Errorf("failed to create custom status evaluator for healthchecks[%d]: %w", i, err)
		}
		h.byKind[gk] = rules
	}
	return h, nil
}

// rulesOf returns the rules of an entry in the order in which they are asked.
func rulesOf(e kustomize.HealthCheckExpressions) ([]rule, error) {
	if e.Current == "" {
		return nil, errors.New("expression Current not specified")
	}
	var rules []rule
	for _, r := range []struct {
		name, text string
		status     health.Status
	}{
		{"InProgress", e.InProgress, health.InProgress}, {"Failed", e.Failed, health.Failed}, {"Current", e.Current, health.Current},
	} {
		if r.text == "" {
			continue
		}
		when, err := compile(r.text)
		if err != nil {
			return nil, fmt.Errorf("failed to parse the expression %s: %w", r.name, err)
		}
		rules = append(rules, rule{status: r.status, when: when})
	}
	return rules, nil
}

// For returns the rule for a kind: the entry of the kind, else that of its group, else nil.
func (h *Health) For(gk schema.GroupKind) func(*unstructured.Unstructured) health.Verdict {
	if h == nil {
		return nil
	}
	rules := h.byKind[gk]
	if rules == nil {
		rules = h.byKind[schema.GroupKind{Group: gk.Group}]
	}
	if rules == nil {
		return nil
	}
	return func(u *unstructured.Unstructured) health.Verdict { return judge(rules, u) }
}

func judge(rules []rule, u *unstructured.Unstructured) health.Verdict {
	const message = "by spec.healthCheckExprs"
	for _, r := range rules {
		holds, err := r.when.holds(u.Object)
		switch {
		case err != nil:
			return health.Verdict{Status: health.Unknown, Error: err.Error()}
		case holds:
			return health.Verdict{Status: r.status, Message: message}
		}
	}
	return health.Verdict{Status: health.InProgress, Message: message + " (none is true)"}
}
