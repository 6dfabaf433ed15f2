package expression_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/expression"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// P127: a compiled condition over both Kustomizations. P128: one that is none is refused for good, one that fails for now is not.
func TestReady(t *testing.T) {
	self, dep := &v1.Kustomization{}, &v1.Kustomization{}
	self.Name, dep.Name = "app", "base"
	self.Labels = map[string]string{"version": "2"}
	dep.Labels = map[string]string{"version": "2"}
	dep.Status.ObservedGeneration = 3
	const invalid = "terminal error: failed to evaluate dependency base: "
	tests := map[string]struct {
		text string
		want bool
		err  string
	}{
		"holds":          {text: "self.metadata.labels.version == dep.metadata.labels.version", want: true},
		"does not":       {text: "dep.status.observedGeneration > 3.0"},
		"no such field":  {text: "dep.status.nothing == 'x'", err: "failed to evaluate the CEL expression"},
		"no condition":   {text: "1 + 1", err: invalid + "CEL expression output type mismatch: expected bool, got int"},
		"does not parse": {text: "dep.", err: invalid + "failed to parse the CEL expression 'dep.'"},
		"no variable":    {text: "other.spec", err: invalid + "failed to parse the CEL expression 'other.spec'"},
	}
	ready := expression.Ready{}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // compiled, and remembered
				got, err := ready.Evaluate(tt.text, self, dep)
				if got != tt.want || (err == nil) != (tt.err == "") || (err != nil && !strings.HasPrefix(err.Error(), tt.err)) {
					t.Errorf("%t, %v", got, err)
				}
				if errors.Is(err, expression.ErrInvalid) != strings.HasPrefix(tt.err, invalid) {
					t.Errorf("taken for invalid: %v", err)
				}
			}
		})
	}
}
