package observe_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

var widgets = object.ID{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "widgets.example.com"}

// An entry that no object can have is no reason to wait: it was recorded by a manifest that forgot its namespace.
func TestStaleOfImpossibleIdentity(t *testing.T) {
	o := getting(func(client.Object) error { t.Error("asked for an object without a namespace"); return nil })
	if got := o.Stale(t.Context(), object.ID{Kind: "ConfigMap", Name: "app"}, now, time.Minute); got.Presence != plan.Absent {
		t.Errorf("%+v, want absent", got)
	}
}

// An answer about another object is no proof about this one, whatever made the API server give it.
func TestStaleOfAnotherObject(t *testing.T) {
	tests := map[string]struct {
		id     object.ID
		answer func(client.Object)
	}{
		"no namespace": {cm, func(obj client.Object) { obj.SetNamespace("") }},
		"other name":   {cm, func(obj client.Object) { obj.SetName("other") }},
		"other kind":   {cm, func(obj client.Object) { obj.GetObjectKind().SetGroupVersionKind(thing) }},
		"path in name": {object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "../configmaps/app"}, func(client.Object) {}},
		"namespace of a cluster-scoped kind": {
			object.ID{Group: widgets.Group, Kind: widgets.Kind, Namespace: "shop", Name: widgets.Name},
			func(obj client.Object) { obj.SetNamespace("") }},
	}
	for name, tt := range tests {
		o := getting(func(obj client.Object) error {
			obj.SetUID("u1")
			tt.answer(obj)
			return nil
		})
		if got := o.Stale(t.Context(), tt.id, now, time.Minute); got.Presence != plan.Unknown || got.Why == "" {
			t.Errorf("%s: %+v, want unknown and why", name, got)
		}
	}
}

// A definition whose names were never accepted was never served, so that nothing can be stored under it.
func TestCustomResourcesOfDefinitionNeverInForce(t *testing.T) {
	tests := map[string]struct {
		conditions []any
		known      bool
	}{
		"names taken":        {[]any{map[string]any{"type": "NamesAccepted", "status": "False"}, map[string]any{"type": "Established", "status": "False"}}, true},
		"once in force":      {[]any{map[string]any{"type": "NamesAccepted", "status": "False"}, map[string]any{"type": "Established", "status": "True"}}, false},
		"not looked at yet":  {nil, false},
		"something not read": {[]any{"Established"}, false},
	}
	for name, tt := range tests {
		o := getting(func(obj client.Object) error {
			crd := obj.(*unstructured.Unstructured)
			crd.Object["spec"] = map[string]any{"group": "example.com", "names": map[string]any{"kind": "Gadget"}}
			crd.Object["status"] = map[string]any{"conditions": tt.conditions}
			return nil
		})
		got := o.Users(t.Context(), []object.ID{widgets}, false)[widgets]
		if got.Known != tt.known || len(got.Users) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if !tt.known && !strings.Contains(got.Why, "is not served") {
			t.Errorf("%s: %q", name, got.Why)
		}
	}
}
