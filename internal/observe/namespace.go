package observe

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/paging"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// content is an object in a namespace.
type content struct {
	name   string
	uid    types.UID
	owners []metav1.OwnerReference
}

// namespaceContents lists what the deletion of a Namespace would take along: objects of every kind that is served, but for
// those that the control plane makes by itself and those that another object of the namespace owns, since the owner is
// listed too. One kind that can't be listed makes the answer unknown.
func (o *Observer) namespaceContents(ctx context.Context, namespace string) plan.Use {
	_, lists, err := o.Discovery.ServerGroupsAndResources()
	if err != nil {
		return plan.Use{Why: fmt.Sprintf("list the kinds that the API server serves: %v", err)}
	}
	var all []content
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
			all = append(all, found...)
		}
	}
	users := worthNaming(all)
	return plan.Use{Known: true, Users: users[:min(len(users), maxNamed)]}
}

// worthNaming leaves out what another object in the list owns. An owner counts only by its UID and only when it was listed:
// one that is cluster-scoped, or gone, keeps nothing in the namespace. Where every object has an owner in the list they own
// each other in a circle, and all are named: something there means that the namespace is not empty.
func worthNaming(all []content) []string {
	listed := map[types.UID]bool{}
	for _, c := range all {
		listed[c.uid] = true
	}
	var names, everything []string
	for _, c := range all {
		everything = append(everything, c.name)
		owned := slices.ContainsFunc(c.owners, func(ref metav1.OwnerReference) bool { return ref.UID != c.uid && listed[ref.UID] })
		if !owned {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		names = everything
	}
	slices.Sort(names)
	return slices.Compact(names) // a kind is served in more than one version
}

// listable picks the namespaced kinds that hold something of somebody: events and metrics don't.
var listable = discovery.ResourcePredicateFunc(func(groupVersion string, r *metav1.APIResource) bool {
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil || gv.Group == "events.k8s.io" || gv.Group == "metrics.k8s.io" || r.Kind == "Event" {
		return false
	}
	return r.Namespaced && slices.Contains(r.Verbs, "list")
})

// contentsOf lists the objects of a kind, and stops when it has enough of those that nothing can own.
func (o *Observer) contentsOf(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]content, error) {
	empty := func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return list
	}
	var found []content
	ownerless := 0
	opts := client.ListOptions{Namespace: namespace, Limit: listPage}
	err := paging.Each(ctx, o.Reader, opts, empty, func(page *metav1.PartialObjectMetadataList) (bool, error) {
		for i := range page.Items {
			item := &page.Items[i]
			id := object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: item.Name}
			if isAutomatic(id) {
				continue
			}
			found = append(found, content{name: id.String(), uid: item.UID, owners: item.OwnerReferences})
			if len(item.OwnerReferences) == 0 {
				ownerless++
			}
		}
		return ownerless >= maxNamed, nil
	})
	return found, err
}

// isAutomatic tells whether an object of a namespace is there because of the namespace itself.
func isAutomatic(id object.ID) bool {
	switch {
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
