package kustomization

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/controller/calm"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/identity"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/revision"
	"github.com/holdfast-gitops/holdfast/internal/target"
	"github.com/holdfast-gitops/holdfast/internal/trigger"
)

// The field indexes by which a Kustomization is found from what it refers to.
const (
	bySource     = "source"
	byDependency = "dependency"
	byConfigMap  = "configMap"
	bySecret     = "secret"
)

// Setup registers the Kustomization controller with the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	r, err := newReconciler(mgr, o)
	if err != nil {
		return err
	}
	index := map[string]client.IndexerFunc{bySource: sourceKeys, byDependency: dependencyKeys, byConfigMap: configMapKeys, bySecret: secretKeys}
	for name, keys := range index {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1.Kustomization{}, name, keys); err != nil {
			return fmt.Errorf("index Kustomizations by %s: %w", name, err)
		}
	}
	c := ctrl.NewControllerManagedBy(mgr).
		Named("kustomization").
		For(&v1.Kustomization{}, builder.WithPredicates(wanted()))
	if err := r.watchSources(c, mgr.GetRESTMapper()); err != nil {
		return err
	}
	c.
		Watches(&v1.Kustomization{}, r.enqueueBy(byDependency), builder.WithPredicates(readinessChanged())).
		Watches(&v1.Kustomization{}, r.enqueueAwaiting(), builder.WithPredicates(dependenceEnded())).
		WatchesRawSource(r.Trigger.Source()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: max(1, o.Concurrent),
			RateLimiter:             backOff(o),
		})
	r.watchConfigs(c)
	return c.Complete(calm.Of(r))
}

// backOff is the delay after errors outside the pipeline.
func backOff(o Options) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		orDuration(o.MinRetryDelay, 750*time.Millisecond), orDuration(o.MaxRetryDelay, 15*time.Minute))
}

func orDuration(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

func newReconciler(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	r, err := assemble(connection{mgr.GetConfig(), mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()}, o, nil)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for watches: %w", err)
	}
	r.Client, r.Trigger = mgr.GetClient(), trigger.New(metadataClient, trigger.Options{})
	return r, nil
}

// connection is how a Reconciler reaches its own cluster.
type connection struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	mapper apimeta.RESTMapper
}

// assemble makes a Reconciler without what only a manager has. Every client of managed objects goes through wrap, when it is not nil.
func assemble(c connection, o Options, wrap func(client.Client) client.Client) (*Reconciler, error) {
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, c.http)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	mapper := observe.NewMapper(c.mapper, disco)
	direct, err := client.New(c.config, client.Options{HTTPClient: c.http, Scheme: c.scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make a client that reads from the API server: %w", err)
	}
	if wrap == nil {
		wrap = func(c client.Client) client.Client { return c }
	}
	stageKinds := make(map[schema.GroupKind]struct{}, len(o.CustomApplyStageKinds))
	for _, gk := range o.CustomApplyStageKinds {
		stageKinds[gk] = struct{}{}
	}
	issuer := identity.New(identity.Options{Client: direct, ObjectLevel: o.ObjectLevelIdentity, Tokens: o.Tokens})
	targets, err := target.New(target.Options{
		Config: c.config, HTTPClient: c.http, Mapper: mapper, Scheme: c.scheme,
		DefaultServiceAccount: o.DefaultServiceAccount, KubeConfig: o.KubeConfig,
		Identity: issuer, DefaultKubeConfigAccount: o.DefaultKubeConfigAccount,
		Executor: func(c client.Client) *execute.Executor {
			return &execute.Executor{Client: wrap(c), Concurrency: o.ConcurrentSSA, CustomStageKinds: stageKinds,
				OverrideManagers: o.OverrideManagers, MigrateAPIVersion: o.MigrateAPIVersion}
		},
	})
	if err != nil {
		return nil, err
	}
	direct = wrap(direct)
	return &Reconciler{
		Options:   o,
		Client:    direct,
		Reader:    direct,
		Artifacts: artifact.NewShelf(artifact.NewReader(artifact.ReaderOptions{Host: o.SourceHost, WatcherHost: o.WatcherHost})),
		Build:     build.Build,
		Targets:   targets,
		Identity:  issuer,
		Siblings:  &observe.Observer{Reader: direct, Mapper: mapper},
		Revisions: &revision.Store{Client: direct},
		Now:       time.Now,
	}, nil
}

// dependencyKeys are the keys of a Kustomization in the index by dependency.
func dependencyKeys(obj client.Object) []string {
	ks := obj.(*v1.Kustomization) //nolint:forcetypeassert // the index is on Kustomizations
	keys := make([]string, 0, len(ks.Spec.DependsOn))
	for _, key := range observe.DependenciesOf(ks) {
		keys = append(keys, key.String())
	}
	return keys
}

func namespaced(namespace, name, otherwise string) string {
	if namespace == "" {
		namespace = otherwise
	}
	return namespace + "/" + name
}

// enqueueBy queues the Kustomizations that refer to an object by the given index.
func (r *Reconciler) enqueueBy(index string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		list := &v1.KustomizationList{}
		key := namespaced(obj.GetNamespace(), obj.GetName(), "")
		if err := r.Client.List(ctx, list, client.MatchingFields{index: key}); err != nil {
			// The list is from the cache and fails only while the process ends; the interval makes up for it.
			ctrl.LoggerFrom(ctx).Error(err, "list Kustomizations by "+index, "key", key)
			return nil
		}
		requests := make([]reconcile.Request, 0, len(list.Items))
		for i := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: keyOf(&list.Items[i])})
		}
		return requests
	})
}

// enqueueAwaiting queues the Kustomizations that wait with their own deletion for those that depend on them.
func (r *Reconciler) enqueueAwaiting() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		ks := obj.(*v1.Kustomization) //nolint:forcetypeassert // the watch is on Kustomizations
		var requests []reconcile.Request
		for _, key := range observe.DependenciesOf(ks) {
			waiting := &v1.Kustomization{}
			// The cache knows every Kustomization that this process works on. Of one that it does not know, nobody waits here.
			if err := r.Client.Get(ctx, key, waiting); err == nil && waiting.DeletionTimestamp != nil {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
		}
		if len(requests) > 0 {
			r.Siblings.SiblingsChanged()
		}
		return requests
	})
}

// dependenceEnded lets pass a Kustomization that is gone, or that does not depend on the same ones any more.
func dependenceEnded() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(crevent.CreateEvent) bool { return false },
		GenericFunc: func(crevent.GenericEvent) bool { return false },
		UpdateFunc: func(e crevent.UpdateEvent) bool {
			return !slices.Equal(dependencyKeys(e.ObjectOld), dependencyKeys(e.ObjectNew))
		},
	}
}

// ownAnnotations are holdfast's annotations on a Kustomization.
func ownAnnotations(obj client.Object) map[string]string {
	ks, ok := obj.(*v1.Kustomization)
	if !ok {
		return nil
	}
	return policy.Annotations(ks)
}

// wanted lets pass what a person or a parent changed, and not the status that the controller writes itself.
func wanted() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e crevent.UpdateEvent) bool {
			before, _ := meta.ReconcileAnnotationValue(e.ObjectOld.GetAnnotations())
			after, _ := meta.ReconcileAnnotationValue(e.ObjectNew.GetAnnotations())
			return before != after || !maps.Equal(ownAnnotations(e.ObjectOld), ownAnnotations(e.ObjectNew))
		}},
	)
}

// readinessChanged lets pass a Kustomization that became ready, or ready at another revision.
func readinessChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(crevent.CreateEvent) bool { return false },
		DeleteFunc: func(crevent.DeleteEvent) bool { return false },
		UpdateFunc: func(e crevent.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*v1.Kustomization)
			after, ok2 := e.ObjectNew.(*v1.Kustomization)
			if !ok1 || !ok2 || !conditions.IsTrue(after, meta.ReadyCondition) {
				return false
			}
			return !conditions.IsTrue(before, meta.ReadyCondition) ||
				before.Status.LastAppliedRevision != after.Status.LastAppliedRevision ||
				before.Status.ObservedGeneration != after.Status.ObservedGeneration
		},
	}
}
