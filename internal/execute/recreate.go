package execute

import (
	"context"
	"errors"
	"fmt"

	ssaerrors "github.com/fluxcd/pkg/ssa/errors"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// neverForced are the kinds that lose data or other people's objects when they are recreated. Only the object itself can
// ask for it, never a switch for the whole Kustomization.
var neverForced = map[string]bool{
	"PersistentVolumeClaim": true, "PersistentVolume": true, "Namespace": true, "CustomResourceDefinition": true,
}

// makeRoom deletes an object that can't be changed in place and may be recreated, so that the next apply creates it anew. It returns
// what is pending then.
func (e *Executor) makeRoom(ctx context.Context, desired, live *unstructured.Unstructured) (pending string, err error) {
	id, uid, version := object.IDOf(desired), live.GetUID(), live.GetResourceVersion()
	err = e.Client.Delete(ctx, live.DeepCopy(),
		client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return id.String() + " changed while it was to be recreated", nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%s has a changed immutable field, and deleting it to create it anew failed: %w", id, Withheld(err, desired))
	}
	return id.String() + " is recreated, since an immutable field changed", nil
}

// mayRecreate returns the refusal of a change if the object is not to be recreated for it. It changes nothing.
//
// The API server has no code for "this field is immutable", and texts differ. So the test is: the change is refused
// as invalid while the same manifest would be accepted as a new object. A manifest that is wrong in itself fails both ways,
// and its live object keeps running.
func (e *Executor) mayRecreate(ctx context.Context, owner client.ObjectKey, force bool, desired, live *unstructured.Unstructured, refusal error) error {
	id := object.IDOf(desired)
	if live == nil || !apierrors.IsInvalid(refusal) {
		return described(refusal, desired)
	}
	forced := isForced(desired) || isForced(live)
	if !forced && (!force || neverForced[id.Kind]) {
		return fmt.Errorf("%w%s", described(refusal, desired), forceHint(id.Kind, force))
	}
	if why := notOurs(owner, live, forced); why != "" {
		return fmt.Errorf("%w (it is not recreated: %s)", described(refusal, desired), why)
	}
	if err := e.wouldCreate(ctx, desired); err != nil {
		return described(refusal, desired)
	}
	return nil
}

// notOurs says why a live object must not be deleted to be created anew; empty when it may. As with any deletion the
// object itself has to prove whose it is; only a word on the very object stands in for the labels.
func notOurs(owner client.ObjectKey, live *unstructured.Unstructured, forced bool) string {
	if by := observe.PruneDisabledBy(live); by != "" {
		return "its metadata says " + by
	}
	labels := live.GetLabels()
	if forced || (labels[v1.OwnerNameLabel] == owner.Name && labels[v1.OwnerNamespaceLabel] == owner.Namespace) {
		return ""
	}
	return fmt.Sprintf("its labels don't name Kustomization/%s/%s; the annotation %sforce: enabled on the object allows it",
		owner.Namespace, owner.Name, v1.ControlPrefix)
}

// described adds the object to an error that does not name it.
func described(err error, obj *unstructured.Unstructured) error {
	if dryRun := (*ssaerrors.DryRunErr)(nil); errors.As(err, &dryRun) {
		return err
	}
	return fmt.Errorf("%s: %w", ssautils.FmtUnstructured(obj), err)
}

func forceHint(kind string, force bool) string {
	if force && neverForced[kind] {
		return fmt.Sprintf(" (spec.force never recreates a %s; if the field is immutable, set the annotation %sforce: enabled on the object)",
			kind, v1.ControlPrefix)
	}
	return ""
}

// wouldCreate asks the API server whether the manifest would be valid as a new object. Validation comes before the
// look whether the name is taken, so "already exists" means that it would.
func (e *Executor) wouldCreate(ctx context.Context, desired *unstructured.Unstructured) error {
	err := e.Client.Create(ctx, desired.DeepCopy(), client.DryRunAll, client.FieldOwner(v1.ApplyManager))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// uidOf returns a UID in the form that preconditions take.
func uidOf(uid string) *types.UID {
	u := types.UID(uid)
	return &u
}
