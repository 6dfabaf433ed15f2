package build_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

func TestNormalize(t *testing.T) {
	object := func(kind string, more map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "x"}}}
		for k, v := range more {
			u.Object[k] = v
		}
		return u
	}
	secret := object("Secret", map[string]any{"stringData": map[string]any{"k": "v"}})
	typo := object("ConfigMap", map[string]any{"dtaa": map[string]any{"k": "v"}})
	if err := build.Normalize([]*unstructured.Unstructured{secret, typo}); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(secret.Object, "data", "k"); got != "dg==" {
		t.Errorf("stringData did not become data: %v", secret.Object)
	}
	if _, ok := typo.Object["dtaa"]; !ok {
		t.Error("a field that the client library does not know was dropped; the API server has to be asked")
	}
}
