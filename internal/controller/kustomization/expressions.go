package kustomization

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"

	"github.com/holdfast-gitops/holdfast/internal/expression"
)

// expressions are those of one generation of a spec.
type expressions struct {
	generation int64
	health     *expression.Health
	ready      expression.Ready
	// err says why health could not be compiled.
	err error
}

// expressions returns those of the spec. Compiling takes longer than a look, so that it is done once.
func (p *pass) expressions() *expressions {
	if e := p.mem.expressions; e != nil && e.generation == p.ks.Generation {
		return e
	}
	e := &expressions{generation: p.ks.Generation, ready: expression.Ready{}}
	e.health, e.err = expression.NewHealth(p.ks.Spec.HealthCheckExprs)
	p.mem.expressions = e
	return e
}

// checkExpressions refuses a spec whose health can't be judged. What it would apply could never become ready.
func (p *pass) checkExpressions(context.Context) *outcome {
	if err := p.expressions().err; err != nil {
		return invalidExpression(err)
	}
	return nil
}

// invalidExpression ends the pass with Flux's words for an expression that only a change of the spec can mend.
func invalidExpression(err error) *outcome {
	return &outcome{state: stateStalled, reason: meta.InvalidCELExpressionReason,
		message: fmt.Sprintf("Reconciliation failed terminally due to configuration error: %v", err)}
}
