package observe

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/health"
)

// The kinds that are read to judge others.
var (
	definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	classKind      = schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}
	podKind        = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

// circumstances are what the verdicts of one look need to know beside the objects, each read once.
type circumstances struct {
	*Observer
	reports map[schema.GroupVersionKind]answer
	pods    map[string]claims
}

type answer struct {
	yes bool
	err error
}

// claims are the claims that the pods of a namespace ask for, by name.
type claims struct {
	names map[string]bool
	err   error
}

func (o *Observer) circumstances() *circumstances {
	return &circumstances{Observer: o, reports: map[schema.GroupVersionKind]answer{}, pods: map[string]claims{}}
}

// of returns what the verdict about an object depends on. Only what can make a difference is read.
func (c *circumstances) of(ctx context.Context, live *unstructured.Unstructured, opts health.Options) (health.Options, error) {
	var err error
	gvk := live.GroupVersionKind()
	switch {
	case opts.Custom != nil:
	case gvk.GroupKind() == schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		opts.Unclaimed, err = c.isUnclaimed(ctx, live)
	case mayBeCustom(gvk.Group) && lacksStatus(live):
		opts.ReportsStatus, err = c.reportsStatus(ctx, gvk)
	}
	return opts, err
}

// mayBeCustom tells whether a group can be that of a custom resource: those have a domain.
func mayBeCustom(group string) bool { return strings.Contains(group, ".") }

func lacksStatus(u *unstructured.Unstructured) bool {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	return len(status) == 0
}

// reportsStatus tells whether the kind's definition promises a status. Who may not read definitions can't know: then an
// object without a status is taken as Flux takes it.
func (c *circumstances) reportsStatus(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	if known, ok := c.reports[gvk]; ok {
		return known.yes, known.err
	}
	yes, err := c.readDefinition(ctx, gvk)
	c.reports[gvk] = answer{yes, err}
	return yes, err
}

func (c *circumstances) readDefinition(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, fmt.Errorf("find the API of %s: %w", gvk.GroupKind(), err)
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(definitionKind)
	name := mapping.Resource.Resource + "." + gvk.Group
	err = c.Reader.Get(ctx, client.ObjectKey{Name: name}, crd)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	return health.ReportsStatus(crd, gvk.Version), nil
}

// isUnclaimed tells whether a claim is unbound because its class waits for a first pod, and none asks for it. Where the class
// or the pods may not be read the claim is judged by itself.
func (c *circumstances) isUnclaimed(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	name, _, _ := unstructured.NestedString(u.Object, "spec", "storageClassName")
	if phase != "Pending" || name == "" {
		return false, nil
	}
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(classKind)
	if err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		return false, unreadable("StorageClass "+name, err)
	}
	if mode, _, _ := unstructured.NestedString(class.Object, "volumeBindingMode"); mode != "WaitForFirstConsumer" {
		return false, nil
	}
	asked := c.claimsOf(ctx, u.GetNamespace())
	return asked.err == nil && !asked.names[u.GetName()], unreadable("the pods of namespace "+u.GetNamespace(), asked.err)
}

// unreadable is the error about a read, nil where the answer is that it is not there or not for us to see.
func unreadable(what string, err error) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// claimsOf returns the claims that the pods of a namespace ask for. A pod that has ended asks for none.
func (c *circumstances) claimsOf(ctx context.Context, namespace string) claims {
	if known, ok := c.pods[namespace]; ok {
		return known
	}
	asked := claims{names: map[string]bool{}}
	asked.err = c.each(ctx, podKind, namespace, func(pod *unstructured.Unstructured) {
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase == "Succeeded" || phase == "Failed" {
			return
		}
		for _, name := range claimsOfPod(pod) {
			asked.names[name] = true
		}
	})
	c.pods[namespace] = asked
	return asked
}

func claimsOfPod(pod *unstructured.Unstructured) []string {
	var names []string
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	for _, item := range volumes {
		volume, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if name, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName"); name != "" {
			names = append(names, name)
		}
		if _, ephemeral := volume["ephemeral"]; ephemeral {
			names = append(names, fmt.Sprintf("%s-%v", pod.GetName(), volume["name"])) // the name that Kubernetes gives it
		}
	}
	return names
}
