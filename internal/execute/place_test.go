package execute_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// In a namespace that is being deleted nothing is created, and that is said once and not for every object.
func TestNamespaceThatIsGoing(t *testing.T) {
	a := newAPI(obj("v1", "ConfigMap/a/there", of("1")))
	terminating := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Code: 403,
		Message: "unable to create new content in namespace a because it is being terminated",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}}
	a.faults["dry-run ConfigMap/a/x"], a.faults["dry-run Secret/a/y"] = terminating, terminating
	_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{
		obj("v1", "ConfigMap/a/x"), obj("v1", "Secret/a/y"), obj("v1", "ConfigMap/a/there", of("2"))}})
	const want = "Namespace/a is being deleted: ConfigMap/a/x and 1 more can't be created before it is gone and there again"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	for _, call := range a.calls {
		if strings.HasPrefix(call, "apply") || strings.HasPrefix(call, "create") {
			t.Errorf("written: %s", call)
		}
	}
}
