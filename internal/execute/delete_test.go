package execute_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// seen returns the objects as they are on the API server.
func (a *api) seen(names ...*unstructured.Unstructured) []*unstructured.Unstructured {
	var list []*unstructured.Unstructured
	for _, o := range names {
		list = append(list, a.objects[object.IDOf(o)].DeepCopy())
	}
	return list
}

// A deletion is one call, with UID, resourceVersion and background propagation, and nothing else is called.
func TestDeleteSendsThePreconditions(t *testing.T) {
	x, y := obj("v1", "ConfigMap/a/x"), obj("v1", "Namespace/n")
	a := newAPI(x, y)
	got := a.executor().Delete(t.Context(), deletions(a.seen(x, y)...), mapper())
	wantCalls(t, a,
		"delete ConfigMap/a/x uid=uid1 rv=1 Background",
		"delete Namespace/n uid=uid2 rv=2 Background")
	for _, d := range got {
		if d.Outcome != execute.DeleteAccepted || d.Err != nil {
			t.Errorf("%s: %+v", d.ID, d)
		}
	}
	if a.reads > 0 || len(a.objects) > 0 {
		t.Errorf("%d reads, %d objects left", a.reads, len(a.objects))
	}
}

func TestDeleteOutcomes(t *testing.T) {
	generic := apierrors.NewGenericServerResponse(404, "delete", obj404, "x", "404 page not found", 0, true)
	tests := map[string]struct {
		change func(*api)
		want   execute.DeleteOutcome
	}{
		"accepted":         {func(*api) {}, execute.DeleteAccepted},
		"already gone":     {func(a *api) { clear(a.objects) }, execute.DeleteAccepted},
		"changed since":    {func(a *api) { a.objects[xID].SetResourceVersion("99") }, execute.DeleteStale},
		"another object":   {func(a *api) { a.objects[xID].SetUID("other") }, execute.DeleteStale},
		"webhook says no":  {func(a *api) { a.faults["delete ConfigMap/a/x"] = forbidden("x") }, execute.DeleteFailed},
		"server error":     {func(a *api) { a.faults["delete ConfigMap/a/x"] = apierrors.NewInternalError(errors.New("boom")) }, execute.DeleteFailed},
		"timeout":          {func(a *api) { a.faults["delete ConfigMap/a/x"] = apierrors.NewTimeoutError("slow", 1) }, execute.DeleteFailed},
		"resource is gone": {func(a *api) { a.faults["delete ConfigMap/a/x"] = generic }, execute.DeleteFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			x := obj("v1", "ConfigMap/a/x")
			a := newAPI(x)
			plan := deletions(a.seen(x)...)
			tt.change(a)
			got := a.executor().Delete(t.Context(), plan, mapper())[0]
			if got.Outcome != tt.want || (got.Err != nil) != (tt.want == execute.DeleteFailed) {
				t.Errorf("%v %v, want %v", got.Outcome, got.Err, tt.want)
			}
			if got.Err != nil && !strings.HasPrefix(got.Err.Error(), "ConfigMap/a/x delete failed: ") {
				t.Errorf("%v does not say what failed", got.Err)
			}
		})
	}
}

var (
	xID    = object.ID{Kind: "ConfigMap", Namespace: "a", Name: "x"}
	obj404 = schema.GroupResource{Resource: "configmaps"}
)

func TestRefusedDeletionStopsNoOther(t *testing.T) {
	x, y, z := obj("v1", "ConfigMap/a/x"), obj("v1", "ConfigMap/a/y"), obj("example.com/v1", "Thing/a/z")
	a := newAPI(x, y, z)
	a.faults["delete ConfigMap/a/x"] = forbidden("x")
	got := map[string]execute.Deleted{}
	for _, d := range a.executor().Delete(t.Context(), deletions(a.seen(x, y)...), mapper()) {
		got[d.ID.Name] = d
	}
	// A kind that no API serves is a failure of its own, too.
	for _, d := range a.executor().Delete(t.Context(), deletions(a.seen(z)...), mapper()) {
		got[d.ID.Name] = d
	}
	if got["x"].Outcome != execute.DeleteFailed || got["y"].Outcome != execute.DeleteAccepted {
		t.Errorf("%+v", got)
	}
	if z := got["z"]; z.Outcome != execute.DeleteFailed || z.Err == nil || !strings.Contains(z.Err.Error(), "find its API") {
		t.Errorf("%+v", z)
	}
}
