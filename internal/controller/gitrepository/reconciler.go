package gitrepository

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/cache"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/identity"
	"github.com/holdfast-gitops/holdfast/internal/source/githubapp"
)

// fieldManager writes finalizer and status, the same as Flux's.
const fieldManager = client.FieldOwner("gotk-source-controller")

// reconciler works on one GitRepository at a time per worker; it keeps nothing between calls
// but the tokens of GitHub Apps, while they are good.
type reconciler struct {
	client    client.Client
	secrets   client.Reader
	store     *artifact.Store
	recorder  record.EventRecorder
	retention artifact.Retention
	jitter    int
	shard     labels.Selector
	// apps gets tokens for GitHub Apps.
	apps *githubapp.Source
	// identity gets credentials of clouds; defaultAccount is whose, where a source names no account.
	identity       *identity.Issuer
	defaultAccount string
	// requeueDependency is the time between two looks at a source to include that is not there.
	requeueDependency time.Duration
	tempDir           string
	now               func() time.Time
}

// Reconcile brings a GitRepository and its artifact up to date.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var repository sourcev1.GitRepository
	if err := r.client.Get(ctx, request.NamespacedName, &repository); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case r.shard != nil && !r.shard.Matches(labels.Set(repository.Labels)):
		return ctrl.Result{}, nil // another process's
	case !repository.DeletionTimestamp.IsZero():
		return ctrl.Result{}, r.finalize(ctx, &repository)
	case repository.Spec.Suspend:
		return ctrl.Result{}, nil
	}
	if err := r.ensureFinalizer(ctx, &repository); err != nil {
		return ctrl.Result{}, err
	}
	o := r.sync(ctx, &repository)
	if ctx.Err() != nil {
		// The process ends. What that broke says nothing about the source.
		return ctrl.Result{}, ctx.Err()
	}
	if err := r.report(ctx, &repository, o); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.collect(&repository, o); err != nil {
		return ctrl.Result{}, err
	}
	return r.next(repository.Spec.Interval.Duration, o)
}

// finalize deletes the artifacts and lets go of the object.
func (r *reconciler) finalize(ctx context.Context, repository *sourcev1.GitRepository) error {
	if !controllerutil.ContainsFinalizer(repository, sourcev1.SourceFinalizer) {
		return nil
	}
	r.identity.Forget(sourcev1.GitRepositoryKind, client.ObjectKeyFromObject(repository), cache.OperationReconcile)
	if err := r.store.Remove(slotOf(repository)); err != nil {
		return err
	}
	patch := lockedPatch(repository)
	controllerutil.RemoveFinalizer(repository, sourcev1.SourceFinalizer)
	if err := r.client.Patch(ctx, repository, patch, fieldManager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer of GitRepository %s: %w", client.ObjectKeyFromObject(repository), err)
	}
	return nil
}

// ensureFinalizer comes before the first artifact, so that none outlives its source.
func (r *reconciler) ensureFinalizer(ctx context.Context, repository *sourcev1.GitRepository) error {
	patch := lockedPatch(repository)
	if !controllerutil.AddFinalizer(repository, sourcev1.SourceFinalizer) {
		return nil
	}
	if err := r.client.Patch(ctx, repository, patch, fieldManager); err != nil {
		return fmt.Errorf("add finalizer to GitRepository %s: %w", client.ObjectKeyFromObject(repository), err)
	}
	return nil
}

// report writes the status, if it changed, and then records the event.
func (r *reconciler) report(ctx context.Context, repository *sourcev1.GitRepository, o outcome) error {
	requestedAt, _ := meta.ReconcileAnnotationValue(repository.Annotations)
	seen := observation{generation: repository.Generation, requestedAt: requestedAt, now: r.now()}
	status := statusOf(repository.Status, seen, o)
	e := eventOf(repository.Status.Conditions, o)
	if !equality.Semantic.DeepEqual(repository.Status, status) {
		patch := lockedPatch(repository)
		repository.Status = status
		if err := r.client.Status().Patch(ctx, repository, patch, fieldManager); err != nil {
			// An object that was deleted meanwhile needs no status; a conflict means that there is a newer one to look at.
			if client.IgnoreNotFound(err) == nil {
				return nil
			}
			return fmt.Errorf("write status of GitRepository %s: %w", client.ObjectKeyFromObject(repository), err)
		}
	}
	if e != nil {
		r.recorder.AnnotatedEventf(repository, e.annotations, e.kind, e.reason, "%s", e.message)
	}
	return nil
}

// collect deletes replaced artifacts. It runs after the status was written, so that what the status names is kept.
func (r *reconciler) collect(repository *sourcev1.GitRepository, o outcome) error {
	current := ""
	if o.artifact != nil {
		current = o.artifact.Path
	}
	retention := r.retention
	retention.Now = r.now()
	deleted, err := r.store.Collect(slotOf(repository), current, retention)
	if len(deleted) > 0 {
		message := fmt.Sprintf("garbage collected %d artifacts", len(deleted))
		r.recorder.Event(repository, corev1.EventTypeNormal, "GarbageCollectionSucceeded", message)
	}
	return err
}

// next says when to look again: at the interval, sooner after a failure that may pass, never after one that only a
// change of the spec mends.
func (r *reconciler) next(interval time.Duration, o outcome) (ctrl.Result, error) {
	switch f := o.failure; {
	case f == nil, f.patient:
		return ctrl.Result{RequeueAfter: spread(interval, r.jitter, rand.Float64())}, nil
	case f.final:
		return ctrl.Result{}, nil
	case f.after > 0:
		return ctrl.Result{RequeueAfter: f.after}, nil
	default:
		return ctrl.Result{}, f.err
	}
}

// spread moves an interval by up to a percentage in either direction, by chance between 0 and 1.
func spread(interval time.Duration, percentage int, chance float64) time.Duration {
	share := float64(percentage) / 100 * (2*chance - 1)
	return interval + time.Duration(share*float64(interval))
}

// lockedPatch is a merge patch that fails when the object has changed since it was read. Call it before the change.
func lockedPatch(repository *sourcev1.GitRepository) client.Patch {
	return client.MergeFromWithOptions(repository.DeepCopy(), client.MergeFromWithOptimisticLock{})
}
