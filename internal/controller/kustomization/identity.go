package kustomization

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/scope"
)

// recordable refuses objects that the inventory can't hold: what can't be recorded would never be pruned.
func recordable(objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		id := object.IDOf(obj)
		if problem := id.Unaddressable(); problem != "" {
			return fmt.Errorf("%s: %s: rename it", id, problem)
		}
		if !id.IsRecordable() {
			return fmt.Errorf("%s: the inventory can't tell the name %q from another one, since it writes a colon as two underscores: rename it",
				id, id.Name)
		}
	}
	return nil
}

// settle gives the objects the identities that they have on the API server, before anything of them is recorded.
func (p *pass) settle(context.Context) *outcome {
	if err := scope.Settle(p.built.Objects, p.Mapper); err != nil {
		return p.failed(meta.ReconciliationFailedReason, err)
	}
	return nil
}

// canonical is the identity that the API server has for an object of an inventory, which may be older than this rule.
func (p *pass) canonical(id object.ID) object.ID { return scope.Canonical(id, p.Mapper) }

// stale are the entries that are not wanted. Kinds that could not be looked up when the inventory was read are looked up once
// more: an entry that is wanted under another namespace must not be among them.
func (p *pass) stale() []inventory.Entry {
	return p.inventory.Canonical(p.canonical).Stale(p.desired())
}

// retainedBefore is what status says is kept, under the identities of the API server.
func (p *pass) retainedBefore() []v1.RetainedObject {
	if p.before.Status.Rollout == nil {
		return nil
	}
	retained := p.before.Status.Rollout.DeepCopy().Retained
	for i := range retained {
		// What can't be read is compared as it is.
		if id, err := object.ParseInventory(retained[i].ID); err == nil {
			retained[i].ID = p.canonical(id).Inventory()
		}
	}
	return retained
}
