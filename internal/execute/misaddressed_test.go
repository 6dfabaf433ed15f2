package execute_test

import (
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// A request that would reach another object than the one it is meant for is never sent, whatever the plan says.
func TestDeleteOfAnotherObjectIsNotSent(t *testing.T) {
	for _, name := range []string{"ConfigMap/x", "Namespace/a/n", "ConfigMap/a/..", "ConfigMap/a/b%2fc"} {
		x := obj("v1", name)
		a := newAPI(x)
		got := a.executor().Delete(t.Context(), deletions(a.seen(x)...), mapper())[0]
		wantCalls(t, a)
		if got.Outcome != execute.DeleteFailed || got.Err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
