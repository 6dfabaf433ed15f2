package execute_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// releaseOf is what a plan says of an object that a person let go of.
func releaseOf(t *testing.T, id object.ID) plan.Release {
	t.Helper()
	p := plan.Prune(plan.Facts{
		Owner: plan.Owner{Name: "shop", Namespace: "flux-system"},
		Stale: []plan.Stale{{ID: id, Released: true, WasPruneOff: true, Seen: plan.Observation{Presence: plan.Present, UID: "u", ResourceVersion: "7",
			OwnerName: "shop", OwnerNamespace: "flux-system"}}},
	})
	if len(p.Release) != 1 {
		t.Fatalf("%+v", p)
	}
	return p.Release[0]
}

// Letting go takes both owner labels off the object that was seen, and touches nothing else.
func TestReleaseTakesTheOwnerLabels(t *testing.T) {
	var sent []map[string]any
	var answer error
	e := &execute.Executor{Client: interceptor.NewClient(nil, interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, p client.Patch, _ ...client.PatchOption) error {
			data, err := p.Data(obj)
			if err != nil {
				return err
			}
			body := map[string]any{}
			if err := json.Unmarshal(data, &body); err != nil {
				return err
			}
			sent = append(sent, body)
			return answer
		}})}
	want := []map[string]any{{"metadata": map[string]any{"uid": "u", "resourceVersion": "7",
		"labels": map[string]any{v1.OwnerNameLabel: nil, v1.OwnerNamespaceLabel: nil}}}}
	if err := e.Release(t.Context(), releaseOf(t, xID), mapper()); err != nil || !reflect.DeepEqual(sent, want) {
		t.Errorf("sent %v, want %v (%v)", sent, want, err)
	}
	answer = apierrors.NewNotFound(obj404, "x")
	if err := e.Release(t.Context(), releaseOf(t, xID), mapper()); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	answer = apierrors.NewConflict(obj404, "x", errors.New("it changed"))
	if err := e.Release(t.Context(), releaseOf(t, xID), mapper()); err == nil || !strings.HasPrefix(err.Error(), "release ConfigMap/a/x: ") {
		t.Errorf("it changed: %v", err)
	}
}
