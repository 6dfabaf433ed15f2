package execute

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// homeless are the objects that can't be created since their namespace is being deleted, by namespace.
type homeless map[string][]object.ID

// takes tells whether that is what is wrong with an object, and notes it.
func (h homeless) takes(obj *unstructured.Unstructured, refusal error) bool {
	if !apierrors.HasStatusCause(refusal, corev1.NamespaceTerminatingCause) {
		return false
	}
	h[obj.GetNamespace()] = append(h[obj.GetNamespace()], object.IDOf(obj))
	return true
}

// errors are one for each namespace: every object of it is refused for the same reason.
func (h homeless) errors() []error {
	var all []error
	for _, namespace := range slices.Sorted(maps.Keys(h)) {
		first, more := h[namespace][0].String(), ""
		if n := len(h[namespace]) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		all = append(all, fmt.Errorf("Namespace/%s is being deleted: %s%s can't be created before it is gone and there again", //nolint:staticcheck // a kind
			namespace, first, more))
	}
	return all
}
