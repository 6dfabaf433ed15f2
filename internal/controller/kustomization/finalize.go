package kustomization

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// finalize deletes what the deletion policy says and then lets the Kustomization go. It works from the inventory alone
// and needs no source, and a verification that was running ends with it.
func (p *pass) finalize(ctx context.Context) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.ks, v1.Finalizer) {
		return ctrl.Result{}, nil
	}
	p.changeReason() // as it is before anything is done
	if p.leavesAll() {
		p.tellLeft(normal, p.changeReason(), p.inventoryNames(), p.whyLeft())
		return ctrl.Result{}, p.letGo(ctx)
	}
	if p.inventory.Len() == 0 {
		// There is nothing to delete, and so no need to reach the cluster or to have an account.
		p.tellLeft(warning, v1.ReasonRetained, p.inventory.Unread(), "what the inventory says of them is not understood")
		return ctrl.Result{}, p.letGo(ctx)
	}
	switch lost, err := p.farewellTarget(ctx); {
	case err != nil:
		return p.waitForTarget(ctx, err)
	case lost != "":
		return ctrl.Result{}, p.abandon(ctx, lost)
	}
	facts := p.farewellFacts()
	p.lookAtSiblings(ctx, &facts)
	p.look(ctx, &facts)
	facts = p.carryOut(ctx, facts)
	wait := p.ks.Spec.DeletionPolicy == fluxv1.DeletionPolicyWaitForTermination
	p.tellDependents(facts)
	farewell := plan.Finalize(facts, p.plan, p.deletingSince(), wait)
	if !farewell.MayGo(p.plan) {
		if p.hasLostRights(ctx, farewell) {
			return ctrl.Result{}, p.abandon(ctx, fmt.Sprintf("the namespace of ServiceAccount/%s is being deleted, and its rights are gone", p.reached.Account))
		}
		return p.stay(ctx, farewell)
	}
	if farewell.TimedOut {
		p.event(warning, meta.ReconciliationFailedReason, "failed to wait for resources termination")
	}
	p.tellKept(farewell.Left)
	return ctrl.Result{}, p.letGo(ctx)
}

// leavingSince is when the wait of a deletion began: when it was asked for, but not before this process first worked on it.
// A controller that was down meanwhile has waited for nobody, and what it deletes now needs its time to end.
func (p *pass) leavingSince() time.Time {
	if p.mem.leaving.IsZero() {
		p.mem.leaving = p.now
	}
	if asked := p.ks.DeletionTimestamp.Time; asked.After(p.mem.leaving) {
		return asked
	}
	return p.mem.leaving
}

// deletingSince is when the wait for the objects began: they are not touched before those are gone that depend on them.
func (p *pass) deletingSince() time.Time {
	if p.heldByDependents() {
		p.mem.dependentsAt = p.now
	}
	if since := p.leavingSince(); since.After(p.mem.dependentsAt) {
		return since
	}
	return p.mem.dependentsAt
}

// lookAtSiblings finds what the others have, and which revision they are to have built before anything is taken from them. A
// deletion needs no source: where it is gone, siblings that built something before pass for up to date. One that can't be
// read says nothing.
func (p *pass) lookAtSiblings(ctx context.Context, facts *plan.Facts) {
	age := observe.SiblingsAge
	if !facts.MayAwaitDependents() {
		age = 0 // what is left for the others from now on is left for good
	}
	facts.Siblings = p.Siblings.Siblings(ctx, p.ks, p.now, age)
	if sourceKinds[p.ks.Spec.SourceRef.Kind] == nil {
		return
	}
	source, err := p.source(ctx)
	switch {
	case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
	case err != nil:
		facts.Siblings = plan.Siblings{Why: fmt.Sprintf("unable to get their source '%s': %v", p.sourceName(), err)}
	case source.GetArtifact() != nil:
		facts.Build.Newest = source.GetArtifact().Revision
	}
}

// farewellFacts are the facts of a deletion: all of the inventory is stale. What left the source while pruning was off is
// left alone, unless the deletion policy asks in so many words for everything to go.
func (p *pass) farewellFacts() plan.Facts {
	facts := p.knownFacts(p.inventory.Entries())
	facts.Finalizing, facts.LeavingSince = true, p.leavingSince()
	for _, key := range observe.DependenciesOf(p.ks) {
		facts.DependsOn = append(facts.DependsOn, plan.Owner{Namespace: key.Namespace, Name: key.Name})
	}
	facts.Policy.Prune = true
	if p.ks.Flux().GetDeletionPolicy() != fluxv1.DeletionPolicyMirrorPrune {
		for i := range facts.Stale {
			facts.Stale[i].WasPruneOff = false
		}
	}
	return facts
}

// leavesAll tells whether the objects stay on the cluster.
func (p *pass) leavesAll() bool {
	policy := p.ks.Flux().GetDeletionPolicy()
	return p.stopped() || policy == fluxv1.DeletionPolicyOrphan ||
		(policy == fluxv1.DeletionPolicyMirrorPrune && !p.ks.Spec.Prune)
}

func (p *pass) whyLeft() string {
	if p.ks.Spec.Suspend {
		return "the Kustomization is suspended"
	}
	if p.stopped() {
		return "the Kustomization is paused"
	}
	return "the deletion policy says so"
}

func (p *pass) inventoryNames() []string {
	entries := p.inventory.Entries()
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.ID.String())
	}
	return append(list, p.inventory.Unread()...)
}

func names(retained []plan.Retention) []string {
	list := make([]string, 0, len(retained))
	for _, r := range retained {
		list = append(list, fmt.Sprintf("%s (%s)", r.ID, r.Reason))
	}
	return list
}

// tellKept says what was not deleted. What a person marked, and nothing else, is no cause for a warning.
func (p *pass) tellKept(left []plan.Retention) {
	kind, reason := normal, p.changeReason()
	byOthers := func(r plan.Retention) bool { return r.Reason != v1.RetainedPruneDisabled && !r.Released }
	if len(p.inventory.Unread()) > 0 || slices.ContainsFunc(left, byOthers) {
		kind, reason = warning, v1.ReasonRetained
	}
	p.tellLeft(kind, reason, append(names(left), p.inventory.Unread()...), "each is kept for the reason given, or not understood")
}

// tellLeft says what stays: a warning, unless somebody asked for just that.
func (p *pass) tellLeft(kind, reason string, objects []string, why string) {
	if len(objects) == 0 {
		return
	}
	p.event(kind, reason,
		fmt.Sprintf("%d objects are left on the cluster, since %s:\n%s", len(objects), why, strings.Join(objects, "\n")))
}

// tellLost says what stays since nobody can delete it. It begins as Flux's event about the same does.
func (p *pass) tellLost(objects []string, why string) {
	if len(objects) > 0 {
		p.event(warning, meta.ReconciliationFailedReason,
			fmt.Sprintf("unable to prune objects: %d are left on the cluster, since %s:\n%s", len(objects), why, strings.Join(objects, "\n")))
	}
}

// stay says what the deletion waits for, and comes back.
func (p *pass) stay(ctx context.Context, farewell plan.Farewell) (ctrl.Result, error) {
	p.reportRetained()
	message := farewellText(p.plan.Retain, farewell.Blocking)
	conditions.MarkReconciling(p.ks, meta.ProgressingReason, "%s", bounded(message))
	if len(p.refusals) > 0 {
		text := "pruning for deleted resource failed: " + strings.Join(p.refusals, "; ")
		conditions.MarkFalse(p.ks, meta.ReadyCondition, meta.PruneFailedReason, "%s", bounded(text))
		if conditions.GetMessage(p.start, meta.ReadyCondition) != bounded(text) {
			p.event(warning, meta.PruneFailedReason, text)
		}
	} else {
		conditions.MarkUnknown(p.ks, meta.ReadyCondition, meta.ProgressingReason, "%s", bounded(message))
	}
	if err := p.writeStatus(ctx); err != nil && !apierrors.IsConflict(err) {
		return ctrl.Result{}, fmt.Errorf("write status: %w", err)
	}
	p.send(ctx)
	p.watch()
	return ctrl.Result{RequeueAfter: max(finalizeLook, p.plan.Recheck)}, nil
}

// finalizeLook is the shortest time between two looks at a deletion that waits.
const finalizeLook = pendingLook

// letGo tells the events and removes the finalizer.
func (p *pass) letGo(ctx context.Context) error {
	before := p.ks.DeepCopy()
	controllerutil.RemoveFinalizer(p.ks, v1.Finalizer)
	if err := p.patchMeta(ctx, before, p.ks); err != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	p.send(ctx)
	p.forget(keyOf(p.ks))
	return nil
}
