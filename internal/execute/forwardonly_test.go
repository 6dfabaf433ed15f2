package execute_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// Going back applies what can go back. What the API server refuses to change, what holds data and what runs once stays as it is, and
// is named; what is missing of it is created, but for a Job.
func TestApplyBack(t *testing.T) {
	fixed, claim := obj("v1", "ConfigMap/a/fixed", of("1")), obj("v1", "PersistentVolumeClaim/a/data", of("1"))
	definition, job := obj("apiextensions.k8s.io/v1", "CustomResourceDefinition/things.example.com", of("1")), obj("batch/v1", "Job/a/migrate", of("1"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "fixed", nil)
	old := []*unstructured.Unstructured{fixed, claim, job, obj("v1", "ConfigMap/a/able", of("1")), obj("v1", "PersistentVolumeClaim/a/missing")}
	tests := map[string]struct {
		objects       []*unstructured.Unstructured
		force         bool
		applied, left string
	}{
		"what can't go back": {objects: old, applied: "ConfigMap/a/able PersistentVolumeClaim/a/missing", left: "ConfigMap/a/fixed PersistentVolumeClaim/a/data"},
		"a definition":       {objects: []*unstructured.Unstructured{definition}, left: "CustomResourceDefinition/things.example.com"},
		"a Job alone":        {objects: []*unstructured.Unstructured{job}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI(obj("v1", "ConfigMap/a/fixed", of("2")), obj("v1", "PersistentVolumeClaim/a/data", of("2")), obj("v1", "ConfigMap/a/able", of("2")),
				obj("apiextensions.k8s.io/v1", "CustomResourceDefinition/things.example.com", of("2")))
			a.faults["dry-run ConfigMap/a/fixed"] = invalid
			got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: tt.objects, Back: true, Force: tt.force})
			if err != nil {
				t.Fatal(err)
			}
			var applied, left []string
			for _, call := range a.calls {
				if what, ok := strings.CutPrefix(call, "apply "); ok {
					applied = append(applied, what)
				}
			}
			for _, l := range got.LeftAsIs {
				left = append(left, l.ID.String())
			}
			if strings.Join(applied, " ") != tt.applied || strings.Join(left, " ") != tt.left {
				t.Errorf("applied %v, want %s; left %v, want %s\n%v", applied, tt.applied, left, tt.left, a.calls)
			}
		})
	}
}
