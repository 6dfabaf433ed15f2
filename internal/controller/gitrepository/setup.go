package gitrepository

import (
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/predicates"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/controller/calm"
	"github.com/holdfast-gitops/holdfast/internal/identity"
	"github.com/holdfast-gitops/holdfast/internal/source/githubapp"
)

// Bounds of the back-off when the options set none, as in Flux.
const (
	defaultMinRetryDelay = 750 * time.Millisecond
	defaultMaxRetryDelay = 15 * time.Minute
)

// Setup registers the GitRepository controller and the artifact server with the manager. The server's port is taken at
// once, so that URLs carry it from the first artifact on.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Recorder == nil {
		return errors.New("set up GitRepository controller: there is no event recorder; set Options.Recorder")
	}
	store, err := artifact.OpenStore(o.StoragePath)
	if err != nil {
		return err
	}
	server, err := artifact.Listen(store, o.StorageAddr, o.StorageAdvAddr)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	if err := register(mgr, o, store, server); err != nil {
		return errors.Join(err, server.Close(), store.Close())
	}
	return nil
}

func register(mgr ctrl.Manager, o Options, store *artifact.Store, server *artifact.Server) error {
	if err := sourcev1.AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("register GitRepository: %w", err)
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("make a client that reads from the API server: %w", err)
	}
	r := &reconciler{
		client:    mgr.GetClient(),
		secrets:   mgr.GetAPIReader(),
		store:     store,
		recorder:  o.Recorder,
		retention: artifact.Retention{TTL: o.ArtifactRetentionTTL, Records: o.ArtifactRetentionRecords},
		jitter:    o.IntervalJitterPercentage,
		shard:     o.Shard,
		now:       time.Now,

		apps:              &githubapp.Source{Now: time.Now},
		identity:          identity.New(identity.Options{Client: direct, ObjectLevel: o.ObjectLevelIdentity, Tokens: o.Tokens}),
		defaultAccount:    o.DefaultServiceAccount,
		requeueDependency: o.RequeueDependency,
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("gitrepository").
		For(&sourcev1.GitRepository{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}, entersShard(o.Shard)))).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Concurrent, RateLimiter: backOff(o)}).
		Complete(calm.Of(r))
	if err != nil {
		return fmt.Errorf("set up GitRepository controller: %w", err)
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("add artifact server: %w", err)
	}
	return nil
}

// entersShard lets pass a source whose labels make it one of this process's.
func entersShard(shard labels.Selector) predicate.Predicate {
	selects := func(object client.Object) bool {
		return shard != nil && shard.Matches(labels.Set(object.GetLabels()))
	}
	return predicate.Funcs{
		CreateFunc:  func(crevent.CreateEvent) bool { return false }, // those that let others pass see to it
		DeleteFunc:  func(crevent.DeleteEvent) bool { return false },
		GenericFunc: func(crevent.GenericEvent) bool { return false },
		UpdateFunc:  func(e crevent.UpdateEvent) bool { return !selects(e.ObjectOld) && selects(e.ObjectNew) },
	}
}

func backOff(o Options) workqueue.TypedRateLimiter[reconcile.Request] {
	least, most := o.MinRetryDelay, o.MaxRetryDelay
	if least <= 0 {
		least = defaultMinRetryDelay
	}
	if most <= 0 {
		most = defaultMaxRetryDelay
	}
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](least, most)
}
