// Package scope knows which kinds live in namespaces.
//
// A manifest may say a namespace of a cluster-scoped object, and kustomize writes one on every kind that it doesn't know; the
// object that the API server makes of it has none. Such an object would have two identities, and the one that is no longer
// written down would look like one that is no longer wanted. So identities are brought into the API server's form before
// anything is recorded or compared.
package scope

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Canonical returns the identity that the API server has for the object. One of a kind that is not known is left alone.
func Canonical(id object.ID, mapper meta.RESTMapper) object.ID {
	if id.Namespace == "" {
		return id
	}
	if mapping, err := mapper.RESTMapping(id.GroupKind()); err == nil && !IsNamespaced(mapping) {
		id.Namespace = ""
	}
	return id
}

// IsNamespaced tells whether the objects of a kind live in namespaces.
func IsNamespaced(mapping *meta.RESTMapping) bool {
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// UnknownError says that the API server could not be asked about a kind.
type UnknownError struct {
	// GroupKind that was asked about.
	GroupKind schema.GroupKind
	// Err is why there was no answer.
	Err error
}

// Error names the kind.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("find the API of %s: %v", e.GroupKind, e.Err)
}

// Unwrap returns why there was no answer.
func (e *UnknownError) Unwrap() error { return e.Err }

// Settle takes the namespace off cluster-scoped objects. Objects that lack one, and two objects that become one by it, are
// refused, all by name. A kind is looked up on the API server; one that is not served yet, in the definitions among the
// objects.
func Settle(objects []*unstructured.Unstructured, mapper meta.RESTMapper) error {
	defined := definedScopes(objects)
	written := make(map[object.ID]string, len(objects))
	var failures []error
	for _, obj := range objects {
		namespace := obj.GetNamespace()
		namespaced, err := isNamespaced(object.IDOf(obj).GroupKind(), mapper, defined)
		switch {
		case err != nil:
			return err
		case namespaced && namespace == "":
			failures = append(failures, fmt.Errorf(
				"%s namespace not specified: set metadata.namespace, or spec.targetNamespace of the Kustomization", object.IDOf(obj)))
			continue
		case !namespaced && namespace != "":
			obj.SetNamespace("")
		}
		id := object.IDOf(obj)
		if other, twice := written[id]; twice {
			failures = append(failures, fmt.Errorf(
				"%s is defined twice, in namespace %q and in %q: it is cluster-scoped, so that both are one object", id, other, namespace))
		}
		written[id] = namespace
	}
	return join(failures)
}

func isNamespaced(gk schema.GroupKind, mapper meta.RESTMapper, defined map[schema.GroupKind]bool) (bool, error) {
	mapping, err := mapper.RESTMapping(gk)
	if err == nil {
		return IsNamespaced(mapping), nil
	}
	if namespaced, ok := defined[gk]; ok && meta.IsNoMatchError(err) {
		return namespaced, nil
	}
	return false, &UnknownError{GroupKind: gk, Err: err}
}

// definedScopes are the kinds that definitions among the objects bring, and whether they are namespaced.
func definedScopes(objects []*unstructured.Unstructured) map[schema.GroupKind]bool {
	defined := map[schema.GroupKind]bool{}
	for _, obj := range objects {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		// What is not a string is refused by the API server.
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		scope, _, _ := unstructured.NestedString(obj.Object, "spec", "scope")
		defined[schema.GroupKind{Group: group, Kind: kind}] = scope != "Cluster"
	}
	return defined
}

// maxErrors bounds the errors in one message.
const maxErrors = 10

func join(errs []error) error {
	if len(errs) > maxErrors {
		more := len(errs) - maxErrors
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more errors", more))
	}
	return errors.Join(errs...)
}
