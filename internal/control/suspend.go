package control

import (
	"context"
	"fmt"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// ExitCannotHappen is the exit code for something that can't happen before a person changes something else.
const ExitCannotHappen = 5

// Suspend sets spec.suspend of a Kustomization, as the flux command line does, or takes it away. What is so already is not written.
func Suspend(ctx context.Context, c client.Client, namespace, name string, suspend bool) (report.Suspension, error) {
	var answer report.Suspension
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ks, err := get(ctx, c, namespace, name)
		if err != nil {
			return err
		}
		answer = report.SuspensionOf(ks, suspend)
		if !answer.Changed {
			return nil
		}
		before := ks.DeepCopy()
		ks.Spec.Suspend = suspend
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return c.Patch(ctx, ks, patch, client.FieldOwner(v1.CLIManager))
	})
	if apierrors.IsConflict(err) || apierrors.IsForbidden(err) {
		ks := &v1.Kustomization{}
		ks.Namespace, ks.Name = namespace, name
		err = written(err, "set spec.suspend of", v1.KustomizationKind, ks)
	}
	return answer, err
}

// Reconcile asks the controller to look at a Kustomization now, as the flux command line does, and returns the value of the annotation.
func Reconcile(ctx context.Context, c client.Client, namespace, name string, now time.Time) (string, error) {
	ks, err := get(ctx, c, namespace, name)
	switch {
	case err != nil:
		return "", err
	case !ks.Spec.Suspend && policy.Stops(ks, now):
		return "", cannotf("%s/%s is paused: nothing is written; first: holdfast release %s -n %s", namespace, name, name, namespace)
	case ks.Spec.Suspend:
		return "", cannotf("%s/%s is suspended: nothing is written; first: holdfast resume %s -n %s", namespace, name, name, namespace)
	}
	value := now.UTC().Format(time.RFC3339Nano)
	_, err = annotate(ctx, c, ks, fluxmeta.ReconcileRequestAnnotation, value)
	return value, err
}

// RefreshSource asks the controller of a Kustomization's source to fetch it now, and returns the source and the value of the annotation.
func RefreshSource(ctx context.Context, c client.Client, namespace, name string, now time.Time) (*unstructured.Unstructured, string, error) {
	ks, err := get(ctx, c, namespace, name)
	if err != nil {
		return nil, "", err
	}
	source, err := sourceOf(ctx, c, ks)
	if err != nil {
		return nil, "", err
	}
	if suspended, _, _ := unstructured.NestedBool(source.Object, "spec", "suspend"); suspended {
		return nil, "", cannotf("the source %s %s/%s is suspended: nothing is written; set its spec.suspend to false first",
			source.GetKind(), source.GetNamespace(), source.GetName())
	}
	before := source.DeepCopy()
	value := now.UTC().Format(time.RFC3339Nano)
	annotations := source.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[fluxmeta.ReconcileRequestAnnotation] = value
	source.SetAnnotations(annotations)
	err = c.Patch(ctx, source, client.MergeFrom(before), client.FieldOwner(v1.CLIManager))
	return source, value, written(err, "annotate", source.GetKind(), source)
}

// sourceOf reads the source of a Kustomization, of whatever kind it is.
func sourceOf(ctx context.Context, c client.Client, ks *v1.Kustomization) (*unstructured.Unstructured, error) {
	ref := ks.Spec.SourceRef
	if ref.Kind == sourcev1.ExternalArtifactKind {
		return nil, cannotf("the source of %s/%s is an ExternalArtifact, which nobody can be asked to fetch: leave out --with-source", ks.Namespace, ks.Name)
	}
	gvk := sourcev1.GroupVersion.WithKind(ref.Kind)
	if ref.APIVersion != "" {
		gvk = schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	}
	source := &unstructured.Unstructured{}
	source.SetGroupVersionKind(gvk)
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = ks.Namespace
	}
	err := c.Get(ctx, key, source)
	switch {
	case apierrors.IsNotFound(err):
		return nil, refusedf("the source of %s/%s, %s %s, does not exist: nothing is written", ks.Namespace, ks.Name, ref.Kind, key)
	case apierrors.IsForbidden(err):
		return nil, &app.Error{Code: app.ExitUnavailable, Err: fmt.Errorf("get %s %s: %w; ask for the verbs get and patch on it, or leave out --with-source", ref.Kind, key, err)}
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", ref.Kind, key, err)
	}
	return source, nil
}

func cannotf(format string, args ...any) error {
	return &app.Error{Code: ExitCannotHappen, Err: fmt.Errorf(format, args...)}
}
