package build_test

import (
	"strings"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// Kustomize quotes what it can't use, and its errors end up in conditions, events and logs.
func TestErrorsQuoteNoValues(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	tests := map[string]files{
		"literal":        {"kustomization.yaml": "secretGenerator:\n- name: s\n  literals: ['hunter2']\n"},
		"patch":          {"kustomization.yaml": "resources: [s.yaml]\npatches:\n- patch: |\n    kind: Secret\n    stringData: {p: hunter2}\n", "s.yaml": secret},
		"patch, no goal": {"kustomization.yaml": "resources: [s.yaml]\npatches:\n- patch: |\n    kind: Secret\n    apiVersion: v1\n    metadata: {name: zz}\n    stringData: {p: hunter2}\n", "s.yaml": secret},
		"no YAML":        {"s.yaml": secret + "stringData:\n  p: hunter2: x\n"},
		"twice":          {"s.yaml": secret + "stringData: {p: hunter2, p: hunter2}\n"},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := build.Build(write(t, f), at(""), build.Options{})
			if err == nil {
				t.Fatal("it is built, so that nothing is tested")
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v", err)
			}
			t.Log(err)
		})
	}
}
