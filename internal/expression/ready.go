package expression

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// The names of the two Kustomizations in an expression: the one that depends, and the one that it depends on.
const (
	selfVariable = "self"
	depVariable  = "dep"
)

// ErrInvalid is in the chain of an error about an expression that no evaluation can satisfy.
var ErrInvalid = errors.New("terminal error")

// Ready are the expressions about dependencies that were compiled, by their text.
type Ready map[string]*program

// Evaluate tells whether a dependency is ready by an expression. The error is ErrInvalid when the expression is no
// condition, or can't be compiled; any other one may pass, when the dependency changes.
func (r Ready) Evaluate(text string, self, dep *v1.Kustomization) (bool, error) {
	expression, err := r.compiled(text)
	if err != nil {
		return false, fmt.Errorf("%w: failed to evaluate dependency %s: %w", ErrInvalid, dep.Name, err)
	}
	variables := map[string]any{}
	for name, ks := range map[string]*v1.Kustomization{selfVariable: self, depVariable: dep} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ks)
		if err != nil {
			return false, fmt.Errorf("convert Kustomization %s/%s for the expression: %w", ks.Namespace, ks.Name, err)
		}
		variables[name] = content
	}
	return expression.holds(variables)
}

func (r Ready) compiled(text string) (*program, error) {
	if expression := r[text]; expression != nil {
		return expression, nil
	}
	expression, err := compile(text, selfVariable, depVariable)
	if err != nil {
		return nil, err
	}
	r[text] = expression
	return expression, nil
}
