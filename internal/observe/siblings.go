package observe

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/scope"
)

// Siblings lists the other Kustomizations of the whole cluster. Whatever the controller itself is limited to, an object may
// move to any of them.
func (o *Observer) Siblings(ctx context.Context, ks *v1.Kustomization) plan.Siblings {
	out := plan.Siblings{Known: true}
	list := &v1.KustomizationList{}
	for {
		opts := &client.ListOptions{Limit: listPage, Continue: list.GetContinue()}
		if err := o.Reader.List(ctx, list, opts); err != nil {
			return plan.Siblings{Why: fmt.Sprintf("list kustomizations in all namespaces: %v", err)}
		}
		for i := range list.Items {
			if list.Items[i].UID != ks.UID {
				out.List = append(out.List, o.sibling(&list.Items[i], ks))
			}
		}
		if list.GetContinue() == "" {
			return out
		}
	}
}

func (o *Observer) sibling(other, ks *v1.Kustomization) plan.Sibling {
	s := plan.Sibling{
		Owner:      plan.Owner{Name: other.Name, Namespace: other.Namespace},
		SameSource: sourceOf(other) == sourceOf(ks),
		Suspended:  other.Spec.Suspend,
		Deleting:   other.DeletionTimestamp != nil,
		Inventory:  object.Set{},
	}
	for _, e := range inventory.Decode(other.Status.Inventory).Entries() {
		s.Inventory[scope.Canonical(e.ID, o.Mapper)] = struct{}{}
	}
	if r := other.Status.Rollout; r != nil && r.Wanted != nil {
		s.BuiltRevision = r.Wanted.Revision
		s.SpecPending = r.WantedGeneration != other.Generation
	}
	return s
}

// sourceOf identifies the source that a Kustomization follows.
func sourceOf(ks *v1.Kustomization) object.ID {
	ref := ks.Spec.SourceRef
	namespace := ref.Namespace
	if namespace == "" {
		namespace = ks.Namespace
	}
	return object.ID{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
}
