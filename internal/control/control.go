// Package control writes the annotations by which a person steers a Kustomization, for the command line.
//
// It writes with a field manager of its own, since a parent Kustomization wipes what kubectl wrote, and with the rights of
// the caller, who needs get and patch on the Kustomization. It decides nothing: the controller reads the annotation and acts
// on it, or does not.
package control

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// ExitRefused is the exit code for a step that was refused because things are not as they were expected.
const ExitRefused = 2

// New connects to a cluster.
func New(config *rest.Config) (client.Client, error) {
	scheme, err := app.NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}

// Confirm allows the deletion that waits, if it is the one with the digest. The write is bound to the version of the
// object that was compared: if the set changes in between, nothing is written.
func Confirm(ctx context.Context, c client.Client, namespace, name, digest string) (report.Confirmation, error) {
	ks, err := get(ctx, c, namespace, name)
	if err != nil {
		return report.Confirmation{}, err
	}
	pending := report.ConfirmationOf(ks)
	switch {
	case pending.Digest == "":
		return pending, refusedf("%s/%s asks for no confirmation: nothing is written", namespace, name)
	case pending.Digest != digest:
		return pending, refusedf("%s/%s asks about another set now, with the digest %s: nothing is written; see `holdfast confirm %s -n %s --plan`",
			namespace, name, pending.Digest, name, namespace)
	case pending.Confirmed:
		return pending, nil
	}
	pending.Confirmed, err = annotate(ctx, c, ks, v1.AnnotationConfirmPrune, digest)
	return pending, err
}

// Release lets go of what left the source while pruning was off, if it is the set with the digest; see Confirm.
func Release(ctx context.Context, c client.Client, namespace, name, digest string) (report.Release, error) {
	ks, err := get(ctx, c, namespace, name)
	if err != nil {
		return report.Release{}, err
	}
	kept := report.ReleaseOf(ks)
	switch {
	case kept.Digest == "":
		return kept, refusedf("%s/%s keeps nothing that left the source while spec.prune was false: nothing is written", namespace, name)
	case kept.Digest != digest:
		return kept, refusedf("%s/%s keeps another set now, with the digest %s: nothing is written; see `holdfast release %s -n %s --plan`",
			namespace, name, kept.Digest, name, namespace)
	case kept.Released:
		return kept, nil
	}
	kept.Released, err = annotate(ctx, c, ks, v1.AnnotationReleaseKept, digest)
	return kept, err
}

func get(ctx context.Context, c client.Client, namespace, name string) (*v1.Kustomization, error) {
	ks := &v1.Kustomization{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, ks)
	switch {
	case err == nil:
		return ks, nil
	case observe.IsAbsent(err):
		return nil, refusedf("no Kustomization %s in namespace %s: give another --namespace, or see `holdfast status -A`", name, namespace)
	}
	return nil, inquiry.Failed("get Kustomization "+namespace+"/"+name, err)
}

// annotate writes an annotation, bound to the version of the object that was read, and tells whether it did.
func annotate(ctx context.Context, c client.Client, ks *v1.Kustomization, key, value string) (bool, error) {
	err := change(ctx, c, ks, "annotate", func() { metav1.SetMetaDataAnnotation(&ks.ObjectMeta, key, value) })
	return err == nil, err
}

// change writes what alter does to an object, bound to the version of it that was read. did names the step in errors.
func change(ctx context.Context, c client.Client, ks *v1.Kustomization, did string, alter func()) error {
	before := ks.DeepCopy()
	alter()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return written(c.Patch(ctx, ks, patch, client.FieldOwner(v1.CLIManager)), did, v1.KustomizationKind, ks)
}

// written explains what a write ended with.
func written(err error, did, kind string, obj client.Object) error {
	key := obj.GetNamespace() + "/" + obj.GetName()
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err):
		return refusedf("%s %s changed in this moment: nothing is written; try again", kind, key)
	case apierrors.IsForbidden(err):
		return &app.Error{Code: app.ExitUnavailable, Err: fmt.Errorf("%s %s %s: %w; ask for the verb patch on this kind", did, kind, key, err)}
	}
	return fmt.Errorf("%s %s %s: %w", did, kind, key, err)
}

func refusedf(format string, args ...any) error {
	return &app.Error{Code: ExitRefused, Err: fmt.Errorf(format, args...)}
}
