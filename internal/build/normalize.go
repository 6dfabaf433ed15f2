package build

import (
	"fmt"

	"github.com/fluxcd/pkg/ssa/normalize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Normalize brings the objects into the form in which the API server returns them, as Flux does: stringData becomes data,
// ports get their protocol, status and creation time go. It works by the client library's types, which would drop a
// field that they don't know without a word. Objects with such a field are left as they are: the API server, which
// knows its own fields, takes it or refuses it by name.
func Normalize(objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if hasUnknownFields(obj) {
			continue
		}
		if err := normalize.Unstructured(obj); err != nil {
			if obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1" {
				// The text may quote a value.
				return fmt.Errorf("normalize Secret/%s: data and stringData have to be maps of strings, data in base64", obj.GetName())
			}
			return fmt.Errorf("normalize %s/%s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

// hasUnknownFields tells whether the type of a built-in kind lacks a field that the object has. Custom resources have no
// type, and lose nothing.
func hasUnknownFields(obj *unstructured.Unstructured) bool {
	typed, err := scheme.Scheme.New(obj.GroupVersionKind())
	if err != nil {
		return false
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true)
	return runtime.IsStrictDecodingError(err)
}
