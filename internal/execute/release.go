package execute

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// Release takes the owner labels from an object, bound to the UID and resourceVersion that the plan saw, and changes nothing else.
// One that is gone, or another by now, is no error for the caller to tell: the next look shows it.
func (e *Executor) Release(ctx context.Context, r plan.Release, mapper meta.RESTMapper) error {
	mapping, err := mapper.RESTMapping(r.ID.GroupKind())
	if err != nil {
		return fmt.Errorf("release %s: find its API: %w", r.ID, err)
	}
	if problem := misaddressed(r.ID, mapping); problem != "" {
		return fmt.Errorf("release %s: %s", r.ID, problem)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": r.UID(), "resourceVersion": r.ResourceVersion(),
		"labels": map[string]any{v1.OwnerNameLabel: nil, v1.OwnerNamespaceLabel: nil},
	}})
	if err != nil {
		return fmt.Errorf("release %s: %w", r.ID, err)
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(mapping.GroupVersionKind)
	obj.SetNamespace(r.ID.Namespace)
	obj.SetName(r.ID.Name)
	err = e.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body), client.FieldOwner(v1.ApplyManager))
	if err != nil && !observe.IsAbsent(err) {
		return fmt.Errorf("release %s: remove its owner labels: %w", r.ID, Withheld(err, obj))
	}
	return nil
}
