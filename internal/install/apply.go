package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldManager is the field manager of what the command line applies. A parent Kustomization's apply wipes the fields
// of kubectl's managers; it leaves this one alone.
const FieldManager = "holdfast-cli"

// establishPoll is the time between two looks at a CRD that is not served yet.
const establishPoll = 100 * time.Millisecond

// errNotServed says that a CRD is in the cluster, but its resources are not.
var errNotServed = errors.New("the API server does not serve it")

// ApplyOptions are the settings of Apply.
type ApplyOptions struct {
	// Out gets one line per object; nothing is printed when nil.
	Out io.Writer
	// ForceConflicts takes over fields that another manager owns.
	ForceConflicts bool
	// Superseded is deleted after the rest was applied; see the function of that name.
	Superseded *client.ObjectKey
	// Timeout bounds the wait for the CRDs; one minute when zero.
	Timeout time.Duration
}

// Apply sends the objects to the cluster in their order, and waits until the CRDs are served before it goes on.
// Its errors know the exit code of the program.
func Apply(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured, o ApplyOptions) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return explain(config, err)
	}
	return explain(config, apply(ctx, c, objects, o))
}

func apply(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, o ApplyOptions) error {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	crds, rest := split(objects)
	if err := applyAll(ctx, c, crds, o); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := awaitEstablished(ctx, c, crd, o.Timeout); err != nil {
			return err
		}
	}
	if err := applyAll(ctx, c, rest, o); err != nil {
		return err
	}
	if o.Superseded == nil {
		return nil
	}
	return takeBack(ctx, c, *o.Superseded, o.Out)
}

// split separates the CRDs from what may need them.
func split(objects []*unstructured.Unstructured) (crds, rest []*unstructured.Unstructured) {
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			crds = append(crds, object)
		} else {
			rest = append(rest, object)
		}
	}
	return crds, rest
}

func applyAll(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, o ApplyOptions) error {
	for _, object := range objects {
		verb, err := applyOne(ctx, c, object, o.ForceConflicts)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(o.Out, "%s %s\n", name(object), verb); err != nil {
			return fmt.Errorf("report %s: %w", name(object), err)
		}
	}
	return nil
}

// applyOne applies an object and says what became of it.
func applyOne(ctx context.Context, c client.Client, object *unstructured.Unstructured, force bool) (string, error) {
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(object.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(object), before)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read %s: %w", name(object), err)
	}
	existed := err == nil

	after := object.DeepCopy()
	options := []client.ApplyOption{client.FieldOwner(FieldManager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(after), options...)
	switch {
	case apierrors.IsConflict(err):
		return "", fmt.Errorf("apply %s: it is managed by something else; to take it over, use --force-conflicts: %w", name(object), err)
	case err != nil:
		return "", fmt.Errorf("apply %s: %w", name(object), err)
	case !existed:
		return "created", nil
	case before.GetResourceVersion() == after.GetResourceVersion():
		return "unchanged", nil
	default:
		return "configured", nil
	}
}

// awaitEstablished waits until the API server serves a CRD.
func awaitEstablished(ctx context.Context, c client.Client, crd *unstructured.Unstructured, timeout time.Duration) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(crd.GroupVersionKind())
	err := wait.PollUntilContextTimeout(ctx, establishPoll, timeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), live); err != nil {
			return false, err
		}
		return established(live)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("%s was applied: %w after %s: look at its status conditions", name(crd), errNotServed, timeout)
	}
	if err != nil {
		return fmt.Errorf("wait for %s: %w", name(crd), err)
	}
	return nil
}

// established reads the conditions of a CRD. Refused names are final: no wait mends them.
func established(crd *unstructured.Unstructured) (bool, error) {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false, fmt.Errorf("read the conditions: %w", err)
	}
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		switch {
		case condition["type"] == "NamesAccepted" && condition["status"] == "False":
			return false, fmt.Errorf("%w: its names are refused: %v", errNotServed, condition["message"])
		case condition["type"] == "Established" && condition["status"] == "True":
			return true, nil
		}
	}
	return false, nil
}
