package observe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// lists answers lists in pages, and counts them by kind and namespace.
type lists struct {
	pods  []string
	page  int
	fail  map[string]error
	calls []string
	// replicaSets are those of every namespace.
	replicaSets []unstructured.Unstructured
	// objects are those of other kinds, in every namespace.
	objects map[string][]unstructured.Unstructured
}

func pod(name, configMap string) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "shop"},
		"spec":   map[string]any{"volumes": []any{map[string]any{"name": "v", "configMap": map[string]any{"name": configMap}}}},
		"status": map[string]any{"phase": "Running"},
	}}
}

func (l *lists) observer() *observe.Observer {
	o := failing(apierrors.NewNotFound(resource, "x"))
	o.Reader = interceptor.NewClient(nil, interceptor.Funcs{List: l.list})
	return o
}

func (l *lists) list(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	kind := strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
	l.calls = append(l.calls, fmt.Sprintf("%s in %q from %q", kind, o.Namespace, o.Continue))
	if err := l.fail[kind+o.Continue]; err != nil {
		return err
	}
	u, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return fmt.Errorf("%T is listed", list)
	}
	u.Items = l.objects[kind]
	u.SetContinue("")
	if kind == "ReplicaSet" {
		u.Items = l.replicaSets
	}
	if kind != "Pod" {
		return nil
	}
	u.Items = nil
	from := 0
	if o.Continue != "" {
		if _, err := fmt.Sscan(o.Continue, &from); err != nil {
			return err
		}
	}
	to := min(from+l.page, len(l.pods))
	for i := from; i < to; i++ {
		u.Items = append(u.Items, pod(fmt.Sprint("p", i), l.pods[i]))
	}
	if to < len(l.pods) {
		u.SetContinue(fmt.Sprint(to))
	}
	return nil
}

func TestUsersInPages(t *testing.T) {
	l := &lists{pods: []string{"other", "other", "app", "other", "app"}, page: 2}
	unused := object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "unused"}
	role := object.ID{Group: "rbac.authorization.k8s.io", Kind: "Role", Namespace: "elsewhere", Name: "r"}
	got := l.observer().Users(t.Context(), []object.ID{cm, unused, role}, false)
	if u := got[cm]; !u.Known || !slices.Equal(u.Users, []string{"Pod/shop/p2", "Pod/shop/p4"}) {
		t.Errorf("app: %+v", u)
	}
	if u := got[unused]; !u.Known || len(u.Users) > 0 {
		t.Errorf("unused: %+v", u)
	}
	if u := got[role]; !u.Known || len(u.Users) > 0 {
		t.Errorf("a kind that nothing refers to: %+v", u)
	}
	pages := 0
	seen := map[string]int{}
	for _, call := range l.calls {
		seen[call]++
		if strings.HasPrefix(call, `Pod in "shop"`) {
			pages++
		}
		if strings.Contains(call, "elsewhere") {
			t.Errorf("%s, though nothing there can be in use", call)
		}
		if seen[call] > 1 {
			t.Errorf("%s twice: once per namespace is enough", call)
		}
	}
	if pages != 3 {
		t.Errorf("%d pages of pods, want 3", pages)
	}
}

// Users that can't be listed, or not to the end, leave the use unknown, and say which right or list was missing.
func TestUsersNotListed(t *testing.T) {
	for name, err := range faults() {
		l := &lists{page: 1, fail: map[string]error{"Deployment": err}}
		got := l.observer().Users(t.Context(), []object.ID{cm}, false)[cm]
		if got.Known || !strings.HasPrefix(got.Why, "list deployments in namespace shop: ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	l := &lists{pods: []string{"app", "other"}, page: 1, fail: map[string]error{"Pod1": apierrors.NewResourceExpired("token expired")}}
	if got := l.observer().Users(t.Context(), []object.ID{cm}, false)[cm]; got.Known || !strings.Contains(got.Why, "list pods in namespace shop: token expired") {
		t.Errorf("a list that broke off: %+v", got)
	}
	class := object.ID{Group: "storage.k8s.io", Kind: "StorageClass", Name: "fast"}
	l = &lists{page: 1, fail: map[string]error{"Pod": apierrors.NewForbidden(resource, "", fmt.Errorf("no"))}}
	if got := l.observer().Users(t.Context(), []object.ID{class}, false)[class]; got.Known || !strings.HasPrefix(got.Why, "list pods in all namespaces: ") {
		t.Errorf("cluster-scoped: %+v", got)
	}
}

// One namespace that can't be listed says nothing about another.
func TestUsersByNamespace(t *testing.T) {
	elsewhere := object.ID{Kind: "ConfigMap", Namespace: "elsewhere", Name: "app"}
	l := &lists{pods: []string{"app"}, page: 1}
	o := l.observer()
	o.Reader = interceptor.NewClient(nil, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var lo client.ListOptions
			if lo.ApplyOptions(opts); lo.Namespace == "elsewhere" {
				return apierrors.NewForbidden(resource, "", fmt.Errorf("no"))
			}
			return l.list(ctx, c, list, opts...)
		}})
	got := o.Users(t.Context(), []object.ID{cm, elsewhere}, false)
	if !got[cm].Known || len(got[cm].Users) != 1 || got[elsewhere].Known {
		t.Errorf("%+v", got)
	}
}

func TestUsersOfADefinition(t *testing.T) {
	crd := object.ID{Group: crdKind.Group, Kind: crdKind.Kind, Name: "things.example.com"}
	tests := map[string]struct {
		get, list error
		group     string
		items     int
		want      plan.Use
	}{
		"unused":           {group: "example.com", want: plan.Use{Known: true, Users: []string{}}},
		"used":             {group: "example.com", items: 2, want: plan.Use{Known: true, Users: []string{"Thing/a/t0", "Thing/a/t1"}}},
		"gone":             {get: apierrors.NewNotFound(resource, "x"), want: plan.Use{Known: true}},
		"unreadable":       {get: generic404(), want: plan.Use{Why: generic404().Error()}},
		"not served":       {group: "other.com", want: plan.Use{Why: "the API of Thing.other.com is not served"}},
		"can't be listed":  {group: "example.com", list: fmt.Errorf("forbidden"), want: plan.Use{Why: "list Thing.example.com: forbidden"}},
		"list is unserved": {group: "example.com", list: bare404(), want: plan.Use{Why: "list Thing.example.com: " + bare404().Error()}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := failing(nil)
			o.Reader = interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
					obj.(*unstructured.Unstructured).Object["spec"] = map[string]any{"group": tt.group, "names": map[string]any{"kind": "Thing"}}
					return tt.get
				},
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					metas := list.(*metav1.PartialObjectMetadataList)
					for i := range tt.items {
						metas.Items = append(metas.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("t", i)}})
					}
					return tt.list
				},
			})
			got := o.Users(t.Context(), []object.ID{crd}, false)[crd]
			if got.Known != tt.want.Known || got.Why != tt.want.Why || !slices.Equal(got.Users, tt.want.Users) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// The history is told only when it is asked for, and one revision that can't be understood makes it unknown.
func TestUsersInTheHistory(t *testing.T) {
	replicaSet := func(name string, spec any) unstructured.Unstructured {
		u := pod(name, "")
		u.SetAPIVersion("apps/v1")
		u.SetKind("ReplicaSet")
		u.Object["spec"] = map[string]any{"replicas": int64(0), "template": map[string]any{"spec": spec}}
		return u
	}
	podSpec := pod("x", "app").Object["spec"]
	l := &lists{page: 1, replicaSets: []unstructured.Unstructured{replicaSet("old", podSpec)}}
	if u := l.observer().Users(t.Context(), []object.ID{cm}, true)[cm]; !u.Known || len(u.Users) > 0 || !slices.Equal(u.Past, []string{"ReplicaSet/shop/old"}) {
		t.Errorf("with history: %+v", u)
	}
	if u := l.observer().Users(t.Context(), []object.ID{cm}, false)[cm]; !u.Known || len(u.Users) > 0 || len(u.Past) > 0 {
		t.Errorf("without history: %+v", u)
	}
	l.replicaSets = []unstructured.Unstructured{replicaSet("bad", map[string]any{"containers": int64(7)})}
	if u := l.observer().Users(t.Context(), []object.ID{cm}, true)[cm]; u.Known || !strings.Contains(u.Why, "bad") {
		t.Errorf("malformed: %+v", u)
	}
}
