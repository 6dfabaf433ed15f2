package build_test

import (
	"reflect"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// TestValues: scalars arrive with the types that the Kubernetes API gives them.
func TestValues(t *testing.T) {
	root := write(t, files{"a.yaml": `apiVersion: example.com/v1
kind: Widget
metadata: {name: w, creationTimestamp: null}
spec: {int: 3, big: 9007199254740993, float: 1.5, whole: 2.0, "on": on, quoted: "3", octal: "010", empty: {}, none: [], text: "a: b\n"}
`})
	got, err := build.Build(root, at(""), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"int": int64(3), "big": int64(9007199254740993), "float": 1.5, "whole": int64(2), "on": "on",
		"quoted": "3", "octal": "010", "empty": map[string]any{}, "none": []any{}, "text": "a: b\n"}
	spec, ok := got.Objects[0].Object["spec"].(map[string]any)
	if !ok {
		t.Fatalf("no spec in %v", got.Objects[0].Object)
	}
	for key, value := range want {
		if !reflect.DeepEqual(spec[key], value) {
			t.Errorf("%s: %T %v, want %T %v", key, spec[key], spec[key], value, value)
		}
	}
}

// TestNamespaceIsRenamed: with a target namespace a Namespace object takes its name, as in Flux (P29).
func TestNamespaceIsRenamed(t *testing.T) {
	root := write(t, files{"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n"})
	ks := at("")
	ks.Spec.TargetNamespace = "prod"
	got, err := build.Build(root, ks, build.Options{})
	if err != nil || got.Objects[0].GetName() != "prod" {
		t.Errorf("%v %v", ids(got), err)
	}
}

// TestConfigKinds is P41: what only kustomize knows is dropped, and so are objects marked as local.
func TestConfigKinds(t *testing.T) {
	root := write(t, files{"kustomization.yaml": "resources: [a.yaml, b.yaml, c.yaml]", "a.yaml": cm("a"),
		"b.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: x}\n",
		"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: l, annotations: {config.kubernetes.io/local-config: 'true'}}\n"})
	got, err := build.Build(root, at(""), build.Options{})
	if err != nil || !reflect.DeepEqual(ids(got), []string{"ConfigMap/shop/a"}) {
		t.Errorf("%v %v", ids(got), err)
	}
}
