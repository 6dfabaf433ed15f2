package kustomization

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/target"
)

// Targets finds where and as whom a Kustomization works; *target.Targets does.
type Targets interface {
	Of(ctx context.Context, ks *v1.Kustomization) (*target.Target, error)
}

// reach finds the cluster, and the rights, with which this pass works on objects. Before that a pass has no way to any.
func (p *pass) reach(ctx context.Context) *outcome {
	p.at(building, p.revision())
	t, err := p.targetOf(ctx)
	if err != nil {
		return p.failed(meta.ReconciliationFailedReason, err)
	}
	p.use(t)
	return nil
}

func (p *pass) targetOf(ctx context.Context) (*target.Target, error) {
	t, err := p.Targets.Of(ctx, p.ks)
	if err != nil {
		return nil, fmt.Errorf("failed to build kube client: %w", err)
	}
	return t, nil
}

// use makes the pass work on a target. What the process remembers of objects on another cluster, or of what another account
// may do, does not count.
func (p *pass) use(t *target.Target) {
	p.reached = t
	p.Executor, p.Observer, p.Mapper = t.Executor, t.Observer, t.Mapper
	if p.mem.target != t.Key {
		p.mem.target, p.mem.appliedKey, p.mem.shared = t.Key, "", shared{}
		p.mem.settled = nil
		p.mem.refused, p.mem.unreleased = map[object.ID]plan.Refusal{}, map[object.ID]string{}
	}
	p.inventory = p.inventory.Canonical(p.canonical)
}

// farewellTarget finds the target of a Kustomization that is being deleted. Where it is lost for good nobody can delete the
// objects any more, and the Kustomization goes without them; where it could not be found now, it stays.
func (p *pass) farewellTarget(ctx context.Context) (lost string, err error) {
	t, err := p.targetOf(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) && p.isHomeGoing(ctx) {
			return "the kubeconfig is gone with its namespace", nil
		}
		return "", err
	}
	p.use(t)
	missing, err := t.IsAccountMissing(ctx)
	if missing {
		lost = fmt.Sprintf("ServiceAccount/%s does not exist, and nobody else may delete them", t.Account)
	}
	return lost, err
}

// isHomeGoing tells whether the namespace of the Kustomization is being deleted: what is gone there never comes back. Not to
// know it is a no.
func (p *pass) isHomeGoing(ctx context.Context) bool {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := p.Reader.Get(ctx, client.ObjectKey{Name: p.ks.Namespace}, namespace)
	return err == nil && namespace.DeletionTimestamp != nil
}

// hasLostRights tells whether a deletion waits for what an account could not read or delete in a namespace that is being
// deleted, and its rights with it.
func (p *pass) hasLostRights(ctx context.Context, farewell plan.Farewell) bool {
	if !p.reached.Impersonates() || p.reached.Remote {
		return false
	}
	for _, r := range farewell.Blocking {
		if r.Reason == v1.RetainedUnverified || r.Reason == v1.RetainedDeleteFailed {
			return p.isHomeGoing(ctx)
		}
	}
	return false
}

// abandon lets a Kustomization go whose objects nobody can delete any more.
func (p *pass) abandon(ctx context.Context, why string) error {
	p.tellLost(p.inventoryNames(), why)
	return p.letGo(ctx)
}

// waitForTarget keeps a Kustomization whose cluster or account could not be found now.
func (p *pass) waitForTarget(ctx context.Context, cause error) (ctrl.Result, error) {
	text := bounded(fmt.Sprintf("deletion waits, %d objects are not deleted: %s", p.inventory.Len(), cause))
	conditions.MarkReconciling(p.ks, meta.ProgressingWithRetryReason, "%s", text)
	conditions.MarkFalse(p.ks, meta.ReadyCondition, meta.ReconciliationFailedReason, "%s", text)
	if conditions.GetMessage(p.start, meta.ReadyCondition) != text {
		p.event(warning, meta.ReconciliationFailedReason, text)
	}
	if err := p.writeStatus(ctx); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("write status: %w", err)
	}
	p.send(ctx)
	return ctrl.Result{}, cause
}
