package execute

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/scope"
)

// DeleteOutcome is what became of one deletion.
type DeleteOutcome int

const (
	// DeleteFailed means: the API server did not accept it, or could not be asked.
	DeleteFailed DeleteOutcome = iota
	// DeleteAccepted means: the object is gone or on its way out; which of them the next look shows.
	DeleteAccepted
	// DeleteStale means: the object is not the one, or not in the state, that the plan saw. Facts have to be gathered again.
	DeleteStale
)

// Deleted is the result of one deletion.
type Deleted struct {
	plan.Deletion
	Outcome DeleteOutcome
	// Err is set for DeleteFailed.
	Err error
}

// Delete sends the deletions of a plan, in order, each bound to the UID and resourceVersion that the plan saw. A refused
// one does not keep the others from being sent. Dependents of the objects are deleted in the background.
func (e *Executor) Delete(ctx context.Context, deletions []plan.Deletion, mapper meta.RESTMapper) []Deleted {
	results := make([]Deleted, 0, len(deletions))
	for _, d := range deletions {
		results = append(results, e.deleteOne(ctx, d, mapper))
	}
	return results
}

func (e *Executor) deleteOne(ctx context.Context, d plan.Deletion, mapper meta.RESTMapper) Deleted {
	mapping, err := mapper.RESTMapping(d.ID.GroupKind())
	if err != nil {
		return Deleted{Deletion: d, Err: fmt.Errorf("delete %s: find its API: %w", d.ID, err)}
	}
	if problem := misaddressed(d.ID, mapping); problem != "" {
		return Deleted{Deletion: d, Err: fmt.Errorf("%s delete failed: %s", d.ID, problem)}
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(mapping.GroupVersionKind)
	obj.SetNamespace(d.ID.Namespace)
	obj.SetName(d.ID.Name)
	version := d.ResourceVersion()
	err = Withheld(e.Client.Delete(ctx, obj,
		client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: uidOf(d.UID()), ResourceVersion: &version}), obj)
	switch {
	case err == nil, observe.IsAbsent(err):
		return Deleted{Deletion: d, Outcome: DeleteAccepted}
	case apierrors.IsConflict(err):
		return Deleted{Deletion: d, Outcome: DeleteStale}
	}
	return Deleted{Deletion: d, Err: fmt.Errorf("%s delete failed: %w", d.ID, err)}
}

// misaddressed says why a request for the object would be one for another; empty when it would not. The client writes name
// and namespace into the URL as they are, and leaves the namespace of a cluster-scoped kind out.
func misaddressed(id object.ID, mapping *meta.RESTMapping) string {
	if namespaced := scope.IsNamespaced(mapping); namespaced != (id.Namespace != "") {
		return fmt.Sprintf("namespace %q of a kind that is of scope %s", id.Namespace, mapping.Scope.Name())
	}
	return id.Unaddressable()
}
