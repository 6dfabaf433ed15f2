package execute_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// An apply tells which Jobs are those of its manifests: those that it created, also before an error, and those that are there as the
// manifest says, also those that are left alone for being there. One that could not be applied, or is not as the manifest says, is of
// another.
func TestApplyTellsItsJobs(t *testing.T) {
	migrate, settings := obj("batch/v1", "Job/shop/migrate"), obj("v1", "ConfigMap/shop/settings")
	changed := obj("batch/v1", "Job/shop/migrate", func(u *unstructured.Unstructured) {
		u.Object["spec"] = map[string]any{"template": "another"}
	})
	marked := func(u *unstructured.Unstructured, value string) *unstructured.Unstructured {
		u = u.DeepCopy()
		u.SetAnnotations(map[string]string{"kustomize.toolkit.fluxcd.io/ssa": value})
		return u
	}
	once, other, ignored := marked(migrate, "IfNotPresent"), marked(changed, "IfNotPresent"), marked(migrate, "Ignore")
	id := object.IDOf(migrate)
	tests := map[string]struct {
		there []*unstructured.Unstructured
		apply []*unstructured.Unstructured
		fault string
		// unknown is a call that fails and does not fail the apply.
		unknown string
		change  func(*execute.ApplyRequest)
		want    map[object.ID]types.UID
	}{
		"created":                {apply: []*unstructured.Unstructured{migrate, settings}, want: map[object.ID]types.UID{id: "uid2"}},
		"created, then an error": {apply: []*unstructured.Unstructured{migrate, obj("batch/v1", "Job/shop/next")}, fault: "apply Job/shop/next", want: map[object.ID]types.UID{id: "uid1"}},
		"as it was":              {there: []*unstructured.Unstructured{migrate}, apply: []*unstructured.Unstructured{migrate}, want: map[object.ID]types.UID{id: "uid1"}},
		"refused":                {there: []*unstructured.Unstructured{migrate}, apply: []*unstructured.Unstructured{changed}, fault: "dry-run Job/shop/migrate", want: map[object.ID]types.UID{}},
		"left, as it was":        {there: []*unstructured.Unstructured{once}, apply: []*unstructured.Unstructured{once}, want: map[object.ID]types.UID{id: "uid1"}},
		"left, another":          {there: []*unstructured.Unstructured{once}, apply: []*unstructured.Unstructured{other}, want: map[object.ID]types.UID{}},
		"left, not known":        {there: []*unstructured.Unstructured{once}, apply: []*unstructured.Unstructured{once}, unknown: "dry-run Job/shop/migrate", want: map[object.ID]types.UID{}},
		"left to others":         {there: []*unstructured.Unstructured{ignored}, apply: []*unstructured.Unstructured{ignored}, want: map[object.ID]types.UID{}},
		"not created again":      {apply: []*unstructured.Unstructured{migrate}, change: func(r *execute.ApplyRequest) { r.HaveRun = object.Set{id: {}} }, want: map[object.ID]types.UID{}},
		"left while going back":  {there: []*unstructured.Unstructured{migrate}, apply: []*unstructured.Unstructured{migrate}, change: func(r *execute.ApplyRequest) { r.Back = true }, want: map[object.ID]types.UID{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI(tt.there...)
			if tt.fault != "" {
				a.faults[tt.fault] = errors.New("no")
			}
			if tt.unknown != "" {
				a.faults[tt.unknown] = errors.New("no answer")
			}
			req := execute.ApplyRequest{Objects: tt.apply}
			if tt.change != nil {
				tt.change(&req)
			}
			result, err := a.executor().Apply(t.Context(), req)
			if (err != nil) != (tt.fault != "") {
				t.Errorf("the apply ended with %v", err)
			}
			if diff := cmp.Diff(tt.want, result.Jobs); diff != "" {
				t.Error(diff)
			}
		})
	}
}
