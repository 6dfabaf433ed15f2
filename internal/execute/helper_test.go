package execute_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// api stands for an API server: it holds objects, fails where it is told to, and writes down every call but reads.
type api struct {
	mu      sync.Mutex
	objects map[object.ID]*unstructured.Unstructured
	// faults are errors by call, such as "dry-run ConfigMap/a/x".
	faults map[string]error
	calls  []string
	// before is called before an apply that is no dry-run is taken up.
	before func(client.Object)
	reads  int
	writes int
}

func newAPI(objects ...*unstructured.Unstructured) *api {
	a := &api{objects: map[object.ID]*unstructured.Unstructured{}, faults: map[string]error{}}
	for _, o := range objects {
		o = o.DeepCopy()
		a.writes++
		o.SetUID(types.UID(fmt.Sprint("uid", a.writes)))
		o.SetResourceVersion(fmt.Sprint(a.writes))
		a.objects[object.IDOf(o)] = o
	}
	return a
}

// call writes a call down and returns the fault that is set for it.
func (a *api) call(verb string, obj client.Object) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	id := object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	call := verb + " " + id.String()
	if verb != "get" {
		a.calls = append(a.calls, call)
	}
	return a.faults[call]
}

func (a *api) client() client.Client {
	return interceptor.NewClient(scopes{}, interceptor.Funcs{Get: a.get, Patch: a.patch, Create: a.create, Delete: a.delete})
}

// scopes knows which kinds are namespaced. Any other call of it is a fault of the test.
type scopes struct{ client.WithWatch }

func (scopes) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	switch obj.GetObjectKind().GroupVersionKind().Kind {
	case "Namespace", "StorageClass", "CustomResourceDefinition", "PersistentVolume":
		return false, nil
	}
	return true, nil
}

func (scopes) RESTMapper() meta.RESTMapper { return mapper() }

func (a *api) executor() *execute.Executor {
	return &execute.Executor{Client: a.client(), Concurrency: 4}
}

func (a *api) get(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	if err := a.call("get", obj); err != nil {
		return err
	}
	u := obj.(*unstructured.Unstructured)
	live := a.objects[object.IDOf(u)]
	if live == nil {
		return notFound(u)
	}
	live.DeepCopyInto(u)
	return nil
}

func (a *api) patch(_ context.Context, _ client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	var o client.PatchOptions
	o.ApplyOptions(opts)
	if a.before != nil && len(o.DryRun) == 0 {
		a.before(obj)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	verb := "apply"
	if len(o.DryRun) > 0 {
		verb = "dry-run"
	}
	if p.Type() != types.ApplyPatchType {
		verb = "patch"
	}
	if err := a.call(verb, obj); err != nil {
		return err
	}
	u := obj.(*unstructured.Unstructured)
	id := object.IDOf(u)
	if live := a.objects[id]; live != nil {
		u.SetUID(live.GetUID())
		u.SetResourceVersion(live.GetResourceVersion())
	}
	if verb == "apply" {
		a.writes++
		u.SetResourceVersion(fmt.Sprint(a.writes))
		if u.GetUID() == "" {
			u.SetUID(types.UID(fmt.Sprint("uid", a.writes)))
		}
		a.objects[id] = u.DeepCopy()
	}
	return nil
}

func (a *api) create(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var o client.CreateOptions
	o.ApplyOptions(opts)
	if len(o.DryRun) == 0 {
		return fmt.Errorf("%s is created for real", obj.GetName())
	}
	if err := a.call("dry-run create", obj); err != nil {
		return err
	}
	if a.objects[object.IDOf(obj.(*unstructured.Unstructured))] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, obj.GetName())
	}
	return nil
}

func (a *api) delete(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	terms := "without terms"
	if p := o.Preconditions; p != nil && o.PropagationPolicy != nil && p.UID != nil && p.ResourceVersion != nil {
		terms = fmt.Sprintf("uid=%s rv=%s %s", *p.UID, *p.ResourceVersion, *o.PropagationPolicy)
	}
	err := a.call("delete", obj)
	a.calls[len(a.calls)-1] += " " + terms
	if err != nil {
		return err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	id := object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	live := a.objects[id]
	switch {
	case live == nil:
		return notFound(obj)
	case string(live.GetUID()) != string(*o.Preconditions.UID), live.GetResourceVersion() != *o.Preconditions.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), fmt.Errorf("precondition failed"))
	}
	delete(a.objects, id)
	return nil
}

func notFound(obj client.Object) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(obj.GetObjectKind().GroupVersionKind().Kind) + "s"}, obj.GetName())
}

func invalid(name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, name, nil)
}

func forbidden(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, name, fmt.Errorf("no right to"))
}

// obj makes an object from "Kind/namespace/name" or "Kind/name" and an API version.
func obj(apiVersion, name string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	parts := strings.Split(name, "/")
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(parts[0])
	u.SetName(parts[len(parts)-1])
	if len(parts) == 3 {
		u.SetNamespace(parts[1])
	}
	for _, change := range changes {
		change(u)
	}
	return u
}

func annotated(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{"kustomize.toolkit.fluxcd.io/" + key: value})
	}
}

func leaving(u *unstructured.Unstructured) {
	u.SetDeletionTimestamp(&metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
}

// of sets a field that no defaulting would set, so that the object differs from one without it.
func of(version string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.Object["data"] = map[string]any{"version": version} }
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	return m
}

// deletions are those of a plan that has seen the objects as the API server holds them.
func deletions(objects ...*unstructured.Unstructured) []plan.Deletion {
	f := plan.Facts{
		Owner:  plan.Owner{Name: "shop", Namespace: "flux-system"},
		Policy: plan.Policy{Prune: true, Retain: "None"},
		Build:  plan.Build{Revision: "v2", Newest: "v2", Applied: true, Healthy: true},

		Siblings: plan.Siblings{Known: true},
	}
	for _, o := range objects {
		f.Stale = append(f.Stale, plan.Stale{ID: object.IDOf(o), Use: plan.Use{Known: true}, Seen: plan.Observation{Presence: plan.Present,
			UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(), OwnerName: "shop", OwnerNamespace: "flux-system"}})
	}
	return plan.Prune(f).Delete
}

func wantCalls(t *testing.T, a *api, want ...string) {
	t.Helper()
	if !slices.Equal(a.calls, want) {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(a.calls, "\n"), strings.Join(want, "\n"))
	}
}
