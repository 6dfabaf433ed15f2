package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// Removal is an installation that was found on a cluster, and what becomes of it when it is taken away.
type Removal struct {
	report.Uninstall
	client client.Client
	config *rest.Config
	// found are the objects that go, the controller first.
	found []*unstructured.Unstructured
}

// FindRemoval looks for the installation of a namespace, whatever its profile and its controllers. Nothing is changed. CRDs and the
// Namespace are never part of it: with them would go what they hold.
func FindRemoval(ctx context.Context, config *rest.Config, namespace string) (*Removal, error) {
	objects, err := removable(namespace)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, explain(config, err)
	}
	r := &Removal{client: c, config: config}
	r.Namespace, r.Deletes = objects[0].GetLabels()[instanceLabel], []string{}
	for _, object := range objects {
		if err := r.find(ctx, object); err != nil {
			return nil, explain(config, err)
		}
	}
	return r, explain(config, r.countKustomizations(ctx))
}

// removable are the objects that an installation may have, the controller first, and then the others in the opposite order of how they
// were applied.
func removable(namespace string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	known := map[string]bool{}
	for _, profile := range []string{ProfileFlux, ProfileLeast} {
		objects, err := Objects(Options{Namespace: namespace, Profile: profile})
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			kind := object.GetKind()
			if kind == "CustomResourceDefinition" || kind == "Namespace" || known[name(object)] {
				continue
			}
			known[name(object)] = true
			all = append(all, object)
		}
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return all, nil
}

// rank puts the controller first, so that it is gone before its rights are.
func rank(object *unstructured.Unstructured) int {
	if object.GetKind() == "Deployment" {
		return 0
	}
	return 1
}

// find looks whether an object is on the cluster, and whether it is of the installation.
func (r *Removal) find(ctx context.Context, object *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := r.client.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name(object), err)
	}
	labels := live.GetLabels()
	if labels[instanceLabel] != object.GetLabels()[instanceLabel] || labels[componentLabel] != object.GetLabels()[componentLabel] {
		r.Left = append(r.Left, name(object))
		return nil
	}
	if owner := labels[v1.OwnerNameLabel]; owner != "" {
		r.InGit = labels[v1.OwnerNamespaceLabel] + "/" + owner
	}
	r.Deletes = append(r.Deletes, name(object))
	r.found = append(r.found, live)
	return nil
}

// countKustomizations counts what stays. Without the definition there are none.
func (r *Removal) countKustomizations(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KustomizationKind + "List"))
	err := r.client.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list Kustomizations: %w", err)
	}
	r.Kustomizations = len(list.Items)
	for _, ks := range list.Items {
		if ks.DeletionTimestamp != nil {
			r.Deleting = append(r.Deleting, ks.Namespace+"/"+ks.Name)
		}
	}
	return nil
}

// Remove deletes exactly the objects that were found, and not one that was made anew since. The controller has ended before anything else
// goes.
func (r *Removal) Remove(ctx context.Context) error {
	for _, object := range r.found {
		uid := object.GetUID()
		err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if err == nil && rank(object) == 0 {
			err = r.awaitGone(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			return explain(r.config, fmt.Errorf("delete %s: %w; what was not deleted yet is as it was: run the command again", name(object), err))
		}
	}
	r.Done = true
	return nil
}

// awaitGone waits until an object, and the pods that it made, are gone.
func (r *Removal) awaitGone(ctx context.Context, object *unstructured.Unstructured) error {
	live := object.DeepCopy()
	err := wait.PollUntilContextCancel(ctx, establishPoll, true, func(ctx context.Context) (bool, error) {
		err := r.client.Get(ctx, client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) || err == nil && live.GetUID() != object.GetUID() {
			return true, nil
		}
		return false, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: exitTimeRanOut, Err: errors.New("its pods did not end in time")}
	}
	return err
}

// Wait is how long the end of the controller may take unless something else is asked for.
const Wait = 2 * time.Minute
