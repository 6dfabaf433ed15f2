package kustomization

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/dependency"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// source is what a Kustomization follows. Nothing but the artifact and the conditions of its status is read: who writes
// them, holdfast or a controller beside it, makes no difference.
type source interface {
	client.Object
	GetArtifact() *meta.Artifact
	GetConditions() []metav1.Condition
}

// externalArtifact is the kind of those sources that any controller may publish; Flux has it behind a gate of that name.
const externalArtifact = sourcev1.ExternalArtifactKind

// sourceKinds are the kinds of sources, and how one is made.
var sourceKinds = map[string]func() source{
	sourcev1.GitRepositoryKind: func() source { return &sourcev1.GitRepository{} },
	sourcev1.OCIRepositoryKind: func() source { return &sourcev1.OCIRepository{} },
	sourcev1.BucketKind:        func() source { return &sourcev1.Bucket{} },
	externalArtifact:           func() source { return &sourcev1.ExternalArtifact{} },
}

// watchSources watches the kinds of sources that the cluster serves. One that it serves later is looked at in intervals until
// the next start.
func (r *Reconciler) watchSources(b *builder.Builder, mapper apimeta.RESTMapper) error {
	for kind, make := range sourceKinds {
		if kind == externalArtifact && !r.ExternalArtifacts {
			continue
		}
		_, err := mapper.RESTMapping(sourcev1.GroupVersion.WithKind(kind).GroupKind(), sourcev1.GroupVersion.Version)
		if apimeta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("find out whether the cluster serves %s: %w", kind, err)
		}
		b.Watches(make(), r.enqueueBySource(kind), builder.WithPredicates(revisionChanged()))
	}
	return nil
}

// source reads the source from the API server, not from a cache: what it offers decides what may be deleted.
func (p *pass) source(ctx context.Context) (source, error) {
	newSource, ok := sourceKinds[p.ks.Spec.SourceRef.Kind]
	if !ok {
		return nil, fmt.Errorf("source kind %q is not known", p.ks.Spec.SourceRef.Kind)
	}
	found := newSource()
	key := client.ObjectKey{Namespace: p.sourceNamespace(), Name: p.ks.Spec.SourceRef.Name}
	return found, p.Reader.Get(ctx, key, found)
}

// sourceName names the source in messages.
func (p *pass) sourceName() string {
	ref := p.ks.Spec.SourceRef
	return ref.Kind + "/" + p.sourceNamespace() + "/" + ref.Name
}

func (p *pass) sourceNamespace() string {
	if ns := p.ks.Spec.SourceRef.Namespace; ns != "" {
		return ns
	}
	return p.ks.Namespace
}

// sourceFault says why a source has no artifact: in its own words, so that nobody has to look there, or that nobody looks after it.
func (p *pass) sourceFault(found source) string {
	ready := apimeta.FindStatusCondition(found.GetConditions(), meta.ReadyCondition)
	switch {
	case ready == nil && p.ks.Spec.SourceRef.Kind != sourcev1.GitRepositoryKind:
		return fmt.Sprintf(": no controller has looked at %s yet, and holdfast has none for this kind; run the one of Flux beside it", p.sourceName())
	case ready == nil:
		return fmt.Sprintf(": no controller has looked at %s yet", p.sourceName())
	case ready.Status == metav1.ConditionFalse:
		return fmt.Sprintf(": %s says: %s", p.sourceName(), ready.Message)
	}
	return ""
}

// revisionChanged lets pass a source that has its first artifact or one of another revision.
func revisionChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e crevent.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(source)
			after, ok2 := e.ObjectNew.(source)
			if !ok1 || !ok2 || after.GetArtifact() == nil {
				return false
			}
			return before.GetArtifact() == nil || !before.GetArtifact().HasRevision(after.GetArtifact().Revision)
		},
		DeleteFunc: func(crevent.DeleteEvent) bool { return false },
	}
}

// sourceKeys are the keys of a Kustomization in the index by source.
func sourceKeys(obj client.Object) []string {
	ks := obj.(*v1.Kustomization) //nolint:forcetypeassert // the index is on Kustomizations
	ref := ks.Spec.SourceRef
	return []string{ref.Kind + "/" + namespaced(ref.Namespace, ref.Name, ks.Namespace)}
}

// enqueueBySource queues the Kustomizations that follow a source and don't have what it offers yet.
func (r *Reconciler) enqueueBySource(kind string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		changed, ok := obj.(source)
		if !ok {
			return nil
		}
		list := &v1.KustomizationList{}
		key := kind + "/" + namespaced(obj.GetNamespace(), obj.GetName(), "")
		if err := r.Client.List(ctx, list, client.MatchingFields{bySource: key}); err != nil {
			// The list is from the cache and fails only while the process ends; the interval makes up for it.
			ctrl.LoggerFrom(ctx).Error(err, "list Kustomizations by source", "key", key)
			return nil
		}
		var behind []v1.Kustomization
		for _, ks := range list.Items {
			if !isUpToDate(&ks, changed.GetArtifact()) {
				behind = append(behind, ks)
			}
		}
		requests, err := inDependencyOrder(behind)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "put Kustomizations of a source in the order of their dependencies; they are queued in any", "source", key)
		}
		return requests
	})
}

// isUpToDate tells whether a Kustomization is ready and has tried what is offered.
func isUpToDate(ks *v1.Kustomization, offered *meta.Artifact) bool {
	return offered != nil && conditions.IsTrue(ks, meta.ReadyCondition) && offered.HasRevision(ks.Status.LastAttemptedRevision)
}

// inDependencyOrder puts Kustomizations behind those that they depend on, which are queued with them. Where they depend on each
// other in a circle the order is any, and the error says so: none of those outside of the circle has to wait for it.
func inDependencyOrder(list []v1.Kustomization) ([]reconcile.Request, error) {
	dependents := make([]dependency.Dependent, 0, len(list))
	requests := make([]reconcile.Request, 0, len(list))
	for i := range list {
		dependents = append(dependents, list[i].Flux())
		requests = append(requests, reconcile.Request{NamespacedName: keyOf(&list[i])})
	}
	sorted, err := dependency.Sort(dependents)
	if err != nil {
		return requests, errors.Join(errors.New("they depend on each other in a circle"), err)
	}
	requests = requests[:0]
	for _, ref := range sorted {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}})
	}
	return requests, nil
}
