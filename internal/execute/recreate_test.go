package execute_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// While something of the stage is refused nothing is deleted to be created anew: it would be missing until that is mended.
func TestNothingIsRecreatedBesideARefusal(t *testing.T) {
	fixed := obj("v1", "ConfigMap/a/fixed", of("1"), annotated("force", "enabled"), func(u *unstructured.Unstructured) { u.SetUID("uid"); u.SetResourceVersion("1") })
	wanted := []*unstructured.Unstructured{obj("v1", "ConfigMap/a/fixed", of("2"), annotated("force", "enabled")), obj("v1", "ConfigMap/a/wrong")}
	a := newAPI(fixed.DeepCopy())
	a.faults["dry-run ConfigMap/a/fixed"], a.faults["dry-run ConfigMap/a/wrong"] = invalid("fixed"), invalid("wrong")
	got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: wanted})
	if err == nil || !strings.Contains(err.Error(), "ConfigMap/a/wrong") || len(got.Pending) > 0 {
		t.Errorf("%+v %v", got, err)
	}
	for _, call := range a.calls {
		if strings.HasPrefix(call, "delete") {
			t.Errorf("sent: %s", call)
		}
	}
	delete(a.faults, "dry-run ConfigMap/a/wrong")
	if got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: wanted}); err != nil || len(got.Pending) != 1 {
		t.Errorf("once nothing else is refused: %+v %v", got, err)
	}
}
