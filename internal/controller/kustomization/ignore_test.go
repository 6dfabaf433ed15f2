package kustomization

import (
	"reflect"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxkustomize "github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/ssa/jsondiff"
)

// P90: every field of a target narrows the rule.
func TestIgnoreRules(t *testing.T) {
	target := fluxkustomize.Selector{}
	v := reflect.ValueOf(&target).Elem()
	for i := range v.NumField() {
		v.Field(i).SetString(v.Type().Field(i).Name)
	}
	got := ignoreRules([]fluxv1.IgnoreRule{{Paths: []string{"/a"}, Target: &target}, {Paths: []string{"/b"}}})
	want := []jsondiff.IgnoreRule{
		{Paths: []string{"/a"}, Selector: &jsondiff.Selector{Group: "Group", Version: "Version", Kind: "Kind", Name: "Name", Namespace: "Namespace",
			AnnotationSelector: "AnnotationSelector", LabelSelector: "LabelSelector"}},
		{Paths: []string{"/b"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
