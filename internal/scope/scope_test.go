package scope_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/scope"
)

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}, {Group: "apiextensions.k8s.io", Version: "v1"}})
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, meta.RESTScopeRoot)
	m.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
	return m
}

func manifest(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func definition(kind, in string) *unstructured.Unstructured {
	u := manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", strings.ToLower(kind)+"s.example.com")
	u.Object["spec"] = map[string]any{"group": "example.com", "scope": in, "names": map[string]any{"kind": kind}}
	return u
}

func TestSettle(t *testing.T) {
	tests := map[string]struct {
		objects []*unstructured.Unstructured
		want    string // the namespace of the last object
		refused string
	}{
		"namespaced":        {objects: []*unstructured.Unstructured{manifest("v1", "ConfigMap", "a", "x")}, want: "a"},
		"namespace missing": {objects: []*unstructured.Unstructured{manifest("v1", "ConfigMap", "", "x")}, refused: "ConfigMap/x namespace not specified"},
		"cluster-scoped":    {objects: []*unstructured.Unstructured{manifest("v1", "Namespace", "a", "x")}},
		"cluster-scoped twice": {objects: []*unstructured.Unstructured{
			manifest("v1", "Namespace", "a", "x"), manifest("v1", "Namespace", "b", "x")}, refused: "Namespace/x is defined twice"},
		"defined here, cluster-scoped": {objects: []*unstructured.Unstructured{
			definition("Thing", "Cluster"), manifest("example.com/v1", "Thing", "a", "x")}},
		"defined here, namespaced": {objects: []*unstructured.Unstructured{
			definition("Thing", "Namespaced"), manifest("example.com/v1", "Thing", "a", "x")}, want: "a"},
		"defined here, namespace missing": {objects: []*unstructured.Unstructured{
			definition("Thing", "Namespaced"), manifest("example.com/v1", "Thing", "", "x")}, refused: "Thing/x namespace not specified"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := scope.Settle(tt.objects, mapper())
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, want %q", err, tt.refused)
				}
				return
			}
			if got := tt.objects[len(tt.objects)-1].GetNamespace(); err != nil || got != tt.want {
				t.Errorf("namespace %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// A scope that is not known is no scope: nothing may be recorded under a guess.
func TestSettleNeedsTheScope(t *testing.T) {
	var unknown *scope.UnknownError
	err := scope.Settle([]*unstructured.Unstructured{manifest("example.com/v1", "Thing", "a", "x")}, mapper())
	if !errors.As(err, &unknown) || unknown.GroupKind.Kind != "Thing" {
		t.Errorf("%v, want an unknown scope", err)
	}
}

func TestCanonical(t *testing.T) {
	for id, want := range map[object.ID]string{
		{Kind: "Namespace", Namespace: "a", Name: "x"}:                   "_x__Namespace",
		{Kind: "Namespace", Name: "x"}:                                   "_x__Namespace",
		{Kind: "ConfigMap", Namespace: "a", Name: "x"}:                   "a_x__ConfigMap",
		{Group: "example.com", Kind: "Thing", Namespace: "a", Name: "x"}: "a_x_example.com_Thing",
	} {
		if got := scope.Canonical(id, mapper()).Inventory(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
