package observe

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// maxNamed bounds the custom resources that are listed by name: one is reason enough to keep a definition.
const maxNamed = 5

// customResources lists the objects that the deletion of a definition would take along.
func (o *Observer) customResources(ctx context.Context, id object.ID) plan.Use {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: id.Group, Version: "v1", Kind: id.Kind})
	err := o.Reader.Get(ctx, client.ObjectKey{Name: id.Name}, crd)
	if IsAbsent(err) {
		return plan.Use{Known: true}
	}
	if err != nil {
		return plan.Use{Why: err.Error()}
	}
	if neverEstablished(crd) {
		return plan.Use{Known: true}
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	mapping, err := o.Mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
	if meta.IsNoMatchError(err) {
		return plan.Use{Why: fmt.Sprintf("the API of %s.%s is not served", kind, group)}
	}
	if err != nil {
		return plan.Use{Why: err.Error()}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind + "List"))
	if err := o.Reader.List(ctx, list, &client.ListOptions{Limit: maxNamed}); err != nil {
		return plan.Use{Why: fmt.Sprintf("list %s.%s: %v", kind, group, err)}
	}
	users := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		users = append(users, object.ID{Kind: kind, Namespace: item.Namespace, Name: item.Name}.String())
	}
	return plan.Use{Known: true, Users: users}
}

// neverEstablished tells whether a definition was never in force, as its names were taken: no API served it, so that it
// has no custom resources. The API server never takes the condition back once it was true. Without the condition the
// definition was not looked at yet, which proves nothing.
func neverEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" {
			return condition["status"] == "False"
		}
	}
	return false
}
