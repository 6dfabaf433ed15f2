package observe

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
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

// namespaceContents lists what the deletion of a Namespace would take along: objects of every kind that is served, but for
// those that the control plane makes by itself and those that another object of the namespace owns, since the owner is
// listed too. One kind that can't be listed makes the answer unknown.
func (o *Observer) namespaceContents(ctx context.Context, namespace string) plan.Use {
	_, lists, err := o.Discovery.ServerGroupsAndResources()
	if err != nil {
		return plan.Use{Why: fmt.Sprintf("list the kinds that the API server serves: %v", err)}
	}
	var users []string
	for _, list := range discovery.FilteredBy(listable, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return plan.Use{Why: err.Error()}
		}
		for _, r := range list.APIResources {
			found, err := o.contentsOf(ctx, gv.WithKind(r.Kind), namespace)
			if err != nil {
				return plan.Use{Why: fmt.Sprintf("list %s in namespace %s: %v", r.Name, namespace, err)}
			}
			users = append(users, found...)
		}
	}
	slices.Sort(users)
	users = slices.Compact(users) // a kind is served in more than one version
	return plan.Use{Known: true, Users: users[:min(len(users), maxNamed)]}
}

// listable picks the namespaced kinds that hold something of somebody: events and metrics don't.
var listable = discovery.ResourcePredicateFunc(func(groupVersion string, r *metav1.APIResource) bool {
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil || gv.Group == "events.k8s.io" || gv.Group == "metrics.k8s.io" || r.Kind == "Event" {
		return false
	}
	return r.Namespaced && slices.Contains(r.Verbs, "list")
})

func (o *Observer) contentsOf(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	var names []string
	for {
		opts := &client.ListOptions{Namespace: namespace, Limit: listPage, Continue: list.GetContinue()}
		if err := o.Reader.List(ctx, list, opts); err != nil {
			return nil, err
		}
		for i := range list.Items {
			id := object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: list.Items[i].Name}
			if !isByproduct(id, &list.Items[i]) {
				names = append(names, id.String())
			}
		}
		if list.GetContinue() == "" || len(names) >= maxNamed {
			return names, nil
		}
	}
}

// isByproduct tells whether an object of a namespace is there because of the namespace itself, or because of another
// object in it.
func isByproduct(id object.ID, obj metav1.Object) bool {
	switch {
	case len(obj.GetOwnerReferences()) > 0:
		return true
	case id.Group != "":
		return false
	case id.Kind == "ServiceAccount":
		return id.Name == "default"
	case id.Kind == "ConfigMap":
		return id.Name == "kube-root-ca.crt"
	case id.Kind == "Endpoints":
		return true // of a Service, which is listed
	}
	return false
}
