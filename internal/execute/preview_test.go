package execute_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// A preview says of each object what an apply would do, tells every refusal, and writes and deletes nothing.
func TestPreviewWritesNothing(t *testing.T) {
	owned := func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
		u.SetUID("uid")
		u.SetResourceVersion("1")
	}
	a := newAPI(obj("v1", "ConfigMap/a/same", of("1")), obj("v1", "ConfigMap/a/new", of("1")), obj("v1", "ConfigMap/a/fixed", of("1"), owned))
	a.faults["dry-run ConfigMap/a/fixed"] = invalid("fixed")
	a.faults["dry-run ServiceAccount/a/bad"] = invalid("bad")
	a.faults["dry-run Secret/a/worse"] = invalid("worse")
	effects, err := a.executor().Preview(t.Context(), execute.ApplyRequest{
		Owner: client.ObjectKey{Namespace: "flux-system", Name: "shop"}, Force: true,
		Objects: []*unstructured.Unstructured{obj("v1", "ConfigMap/a/same", of("1")), obj("v1", "ConfigMap/a/new", of("2")), obj("v1", "ConfigMap/a/fixed", of("2")),
			obj("v1", "ServiceAccount/a/bad"), obj("v1", "Secret/a/worse"), obj("v1", "ConfigMap/a/fresh"), obj("v1", "ConfigMap/a/left", annotated("ssa", "Ignore"))}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]execute.Act{}
	for _, e := range effects {
		got[e.ID.String()] = e.Act
		if (e.Act == execute.Refuse) != (e.Err != nil) {
			t.Errorf("%s: %s with the error %v", e.ID, e.Act, e.Err)
		}
	}
	for id, want := range map[string]execute.Act{"ConfigMap/a/same": execute.Unchanged, "ConfigMap/a/new": execute.Configure, "ConfigMap/a/fixed": execute.Replace,
		"ServiceAccount/a/bad": execute.Refuse, "Secret/a/worse": execute.Refuse, "ConfigMap/a/fresh": execute.Create, "ConfigMap/a/left": execute.Skip} {
		if got[id] != want {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
	for _, call := range a.calls {
		if strings.HasPrefix(call, "apply") || strings.HasPrefix(call, "delete") || strings.HasPrefix(call, "create") && !strings.Contains(call, "dry") {
			t.Errorf("sent: %s", call)
		}
	}
}

// An object whose namespace or kind comes with the same revision is not dry-run: the answer would be no for now.
func TestPreviewKnowsWhatComesWithTheRevision(t *testing.T) {
	crd := obj("apiextensions.k8s.io/v1", "CustomResourceDefinition/things.example.com", func(u *unstructured.Unstructured) {
		u.Object["spec"] = map[string]any{"group": "example.com", "names": map[string]any{"kind": "Thing"}}
	})
	a := newAPI()
	effects, err := a.executor().Preview(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{
		obj("v1", "ConfigMap/new/x"), obj("v1", "Namespace/new"), crd, obj("example.com/v1", "Thing/a/t")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range effects {
		later := e.ID.Kind == "ConfigMap" || e.ID.Kind == "Thing"
		if e.Act != execute.Create || (e.Compared != "") != later {
			t.Errorf("%s: %s, %q", e.ID, e.Act, e.Compared)
		}
	}
}

// What the client lacks the right for is a refusal for who applies with it, and a comparison for who only looks.
func TestPreviewCompares(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New(`User "jane" cannot patch resource "configmaps" in API group ""`))
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("exceeded quota: small"))
	live := obj("v1", "ConfigMap/a/x", of("1"), func(u *unstructured.Unstructured) { u.SetUID("uid"); u.SetAnnotations(map[string]string{"a": "b"}) })
	for name, tt := range map[string]struct {
		fault   error
		compare bool
		version string
		want    execute.Act
	}{
		"same": {no, true, "1", execute.Unchanged}, "another": {no, true, "2", execute.Configure}, "who applies": {no, false, "2", execute.Refuse},
		"a quota": {quota, true, "2", execute.Refuse},
	} {
		a := newAPI(live.DeepCopy())
		a.faults["dry-run ConfigMap/a/x"] = tt.fault
		effects, err := a.executor().Preview(t.Context(), execute.ApplyRequest{Compare: tt.compare, Objects: []*unstructured.Unstructured{obj("v1", "ConfigMap/a/x", of(tt.version))}})
		if err != nil || len(effects) != 1 || effects[0].Act != tt.want || (effects[0].Compared != "") != (tt.want == execute.Unchanged || tt.want == execute.Configure) {
			t.Errorf("%s: %+v %v", name, effects, err)
		}
	}
}

// When a stage is refused, what would be refused in those after it is told as well, and nothing of them is written.
func TestApplyTellsTheErrorsOfLaterStages(t *testing.T) {
	a := newAPI()
	a.faults["dry-run ServiceAccount/a/bad"] = invalid("bad")
	a.faults["dry-run ConfigMap/a/worse"] = invalid("worse")
	_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{
		obj("v1", "ServiceAccount/a/bad"), obj("v1", "ConfigMap/a/worse"), obj("v1", "ConfigMap/a/good")}})
	if err == nil || !strings.Contains(err.Error(), "ServiceAccount/a/bad") || !strings.Contains(err.Error(), "ConfigMap/a/worse") || strings.Contains(err.Error(), "good") {
		t.Errorf("%v", err)
	}
	for _, call := range a.calls {
		if strings.HasPrefix(call, "apply") {
			t.Errorf("sent: %s", call)
		}
	}
}

// Whatever reaches it, the client of a preview deletes nothing.
func TestDryRunDeletesNothing(t *testing.T) {
	a := newAPI(obj("v1", "ConfigMap/a/x"))
	c := execute.DryRun(a.executor().Client)
	if err := c.Delete(t.Context(), obj("v1", "ConfigMap/a/x"), client.DryRunAll); err == nil {
		t.Error("it sent a deletion")
	}
	if err := c.DeleteAllOf(t.Context(), obj("v1", "ConfigMap/a/x")); err == nil {
		t.Error("it sent deletions")
	}
	wantCalls(t, a)
}
