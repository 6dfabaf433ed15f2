package kustomization

import (
	"context"
	"errors"
	"fmt"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/jitter"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/identity"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/report"
	"github.com/holdfast-gitops/holdfast/internal/revision"
	"github.com/holdfast-gitops/holdfast/internal/telemetry"
	"github.com/holdfast-gitops/holdfast/internal/trigger"
)

// Reconciler reconciles Kustomizations.
type Reconciler struct {
	Options

	// Client writes status and finalizers. Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// Artifacts fetches what sources publish, and Build renders it.
	Artifacts Artifacts
	Build     BuildFunc
	// Targets are the only ways to managed objects.
	Targets Targets
	// Identity gets credentials for what is decrypted; nil in a world without.
	Identity *identity.Issuer
	// Siblings lists the other Kustomizations, with the controller's own rights.
	Siblings *observe.Observer
	// Revisions are the stored ones.
	Revisions *revision.Store
	// Trigger queues a Kustomization when something that it waits for changes; without it looks are periodic only.
	Trigger *trigger.Watcher
	// Now is the clock.
	Now func() time.Time

	memories memories
}

// Artifacts has the content of artifacts in directories that nobody writes to; *artifact.Shelf does. What it returns may be used until
// done is called.
type Artifacts interface {
	Open(ctx context.Context, a *meta.Artifact) (dir string, done func(), err error)
}

// BuildFunc renders a Kustomization from an artifact that was fetched; build.Build does.
type BuildFunc func(root string, ks *v1.Kustomization, o build.Options) (build.Result, error)

// Reconcile makes one pass over one Kustomization.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ks := &v1.Kustomization{}
	if err := r.Reader.Get(ctx, req.NamespacedName, ks); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read the Kustomization: %w", err)
	}
	if r.Shard != nil && !r.Shard.Matches(labels.Set(ks.Labels)) {
		// It is another process's, and may have been this one's until its labels changed.
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	p := r.newPass(ks)
	defer telemetry.ObserveReconcile(v1.KustomizationKind, ks.Namespace, ks.Name, p.now)
	switch {
	case ks.DeletionTimestamp != nil:
		return p.finalize(ctx)
	case !controllerutil.ContainsFinalizer(ks, v1.Finalizer):
		return r.addFinalizer(ctx, ks)
	case p.rests():
		return p.suspended(ctx)
	}
	return p.finish(ctx, p.run(ctx))
}

// forget drops what the process remembers of a Kustomization that is gone.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.memories.forget(key)
	if r.Trigger != nil {
		r.Trigger.Set(key, 0)
	}
	telemetry.ForgetKept(key.Namespace, key.Name)
	telemetry.State(key.Namespace, key.Name, "")
	telemetry.ForgetReconcile(v1.KustomizationKind, key.Namespace, key.Name)
	r.Identity.Forget(v1.KustomizationKind, key, fluxv1.MetricFetchKubeConfig, fluxv1.MetricDecryptWithAWS, fluxv1.MetricDecryptWithAzure,
		fluxv1.MetricDecryptWithGCP, fluxv1.MetricDecryptWithVault)
}

func (r *Reconciler) newPass(ks *v1.Kustomization) *pass {
	p := &pass{
		Reconciler: r,
		start:      ks.DeepCopy(),
		before:     ks.DeepCopy(),
		ks:         ks,
		mem:        r.memories.of(keyOf(ks), ks.UID),
		now:        r.Now(),
		inventory:  inventory.Decode(ks.Status.Inventory),
	}
	p.asked = isAsked(ks)
	if ks.Status.Rollout != nil {
		p.rollout = *ks.Status.Rollout.DeepCopy()
	}
	return p
}

func keyOf(ks *v1.Kustomization) client.ObjectKey { return client.ObjectKeyFromObject(ks) }

// addFinalizer makes sure that the inventory is acted on before the object can go. It comes before everything else.
func (r *Reconciler) addFinalizer(ctx context.Context, ks *v1.Kustomization) (ctrl.Result, error) {
	before := ks.DeepCopy()
	controllerutil.AddFinalizer(ks, v1.Finalizer)
	if err := r.patchMeta(ctx, before, ks); err != nil {
		return ctrl.Result{}, fmt.Errorf("add finalizer: %w", err)
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

func (r *Reconciler) patchMeta(ctx context.Context, before, after *v1.Kustomization) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, after, patch, client.FieldOwner(v1.StatusManager))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// suspended leaves everything as it is; only a request is acknowledged.
func (p *pass) suspended(ctx context.Context) (ctrl.Result, error) {
	p.acknowledge()
	telemetry.State(p.ks.Namespace, p.ks.Name, string(report.StateOf(p.ks)))
	return ctrl.Result{RequeueAfter: p.pauseEnds()}, p.writeStatus(ctx)
}

// rests tells whether the pass leaves everything as it is. A revision that a person chose goes on all the same.
func (p *pass) rests() bool { return p.stopped() && !p.choosesStored() }

// stopped tells whether a person stopped the Kustomization, by spec.suspend or by a pause.
func (p *pass) stopped() bool { return policy.Stops(p.ks, p.now) }

// pauseEnds is the time until a pause ends; zero where no time ends what stops the Kustomization.
func (p *pass) pauseEnds() time.Duration {
	pause := policy.PauseOf(p.ks, p.now)
	if p.ks.Spec.Suspend || pause == nil || pause.Unclear {
		return 0
	}
	return max(time.Millisecond, pause.Until.Sub(p.now))
}

// finish writes the status of the pass, tells its events, and says when to come back.
func (p *pass) finish(ctx context.Context, out outcome) (ctrl.Result, error) {
	if errors.Is(out.err, errOvertaken) {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	p.report(out)
	if err := p.writeStatus(ctx); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		if errors.Is(err, errStockCRD) {
			p.emit(ctx, out)
		}
		return ctrl.Result{}, errors.Join(fmt.Errorf("write status: %w", err), out.err)
	}
	if p.planned {
		p.tellRetained()
		p.measureRetained()
	}
	telemetry.State(p.ks.Namespace, p.ks.Name, string(report.StateOf(p.ks)))
	p.emit(ctx, out)
	if out.err != nil {
		return ctrl.Result{}, out.err
	}
	p.watch()
	return ctrl.Result{RequeueAfter: p.after(out)}, nil
}

// after is the time to the next pass: what the outcome asks for, what the plan wants looked at, and the next apply.
func (p *pass) after(out outcome) time.Duration {
	after := out.after
	recheck := p.plan.Recheck
	if p.eventsEndRetention() {
		recheck = p.periodic(recheck)
	}
	look := p.periodic(p.nextLook())
	if p.awaitsWord {
		look = min(look, wordLook)
	}
	for _, d := range []time.Duration{recheck, look} {
		if d > 0 && (after == 0 || d < after) {
			after = d
		}
	}
	return after
}

// periodic is the time between two looks that no event causes: longer where events are there to cause them. A deadline
// causes none, so a look is never put off past it.
func (p *pass) periodic(look time.Duration) time.Duration {
	if !p.watched || look <= 0 {
		return look
	}
	look = max(look, watchedLook)
	for _, end := range []time.Time{p.deadline(), p.soakEnd()} {
		if !end.IsZero() {
			look = max(time.Millisecond, min(look, end.Sub(p.now)))
		}
	}
	return look
}

// deadline is when the verification gives up; zero while none is running.
func (p *pass) deadline() time.Time {
	if p.rollout.Phase != v1.PhaseVerifying || p.rollout.Deadline == nil {
		return time.Time{}
	}
	return p.rollout.Deadline.Time
}

// never is the time to an apply that an interval of zero does not ask for. As in Flux, such a Kustomization is looked at when
// something changes.
const never = 100 * 365 * 24 * time.Hour

// interval is the time to the next apply without a change, spread over the jitter.
func (p *pass) interval() time.Duration {
	if p.ks.Spec.Interval.Duration <= 0 {
		return never
	}
	interval := p.ks.Spec.Interval.Duration
	if p.IntervalJitterPercentage > 0 {
		interval = jitter.Percent(float64(p.IntervalJitterPercentage)/100, nil)(interval)
	}
	return interval
}
