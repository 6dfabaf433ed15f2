package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// floor measures what no controller can be faster than: the objects of the fleet, applied by a client that does nothing
// else. First they are created, then applied again as they are. They are deleted afterwards, all but what deletes itself.
func (w *world) floor(ctx context.Context) ([]figure, error) {
	objects, err := w.fleetObjects()
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, name := range []string{"create", "apply again"} {
		began := time.Now()
		err := w.forAll(ctx, objects, func(ctx context.Context, obj *unstructured.Unstructured) error {
			//nolint:staticcheck // Apply wants typed configurations
			return w.kube.Patch(ctx, obj.DeepCopy(), client.Apply, client.FieldOwner("floor"), client.ForceOwnership)
		})
		if err != nil {
			return nil, fmt.Errorf("apply with a bare client: %w", err)
		}
		took := time.Since(began).Seconds()
		figures = append(figures, figure{Controller: "bare client", Phase: name, Seconds: took, Requests: map[string]int{"PATCH": len(objects)}})
	}
	err = w.forAll(ctx, objects, func(ctx context.Context, obj *unstructured.Unstructured) error {
		return w.kube.Delete(ctx, obj.DeepCopy())
	})
	if err != nil {
		return nil, fmt.Errorf("delete what the bare client applied: %w", err)
	}
	return figures, nil
}

func (w *world) forAll(ctx context.Context, objects []*unstructured.Unstructured, do func(context.Context, *unstructured.Unstructured) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.concurrent)
	for _, obj := range objects {
		group.Go(func() error { return do(ctx, obj) })
	}
	return group.Wait()
}

// fleetObjects are those of the whole fleet, with a ConfigMap in place of each generated one.
func (w *world) fleetObjects() ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	for i := 1; i <= w.fleet; i++ {
		generated := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {version: '1'}\n", appName(i))
		for _, text := range append(manifests(w.settings, i, w.objects), generated) {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
				return nil, fmt.Errorf("read a manifest: %w", err)
			}
			obj.SetNamespace(namespace)
			list = append(list, obj)
		}
	}
	return list, nil
}
