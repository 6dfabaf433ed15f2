package build_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// A field "items" makes no list: a custom resource that has one was taken for an empty list, and pruned.
func TestListsAreToldByTheirKind(t *testing.T) {
	const custom = "apiVersion: example.com/v1\nkind: Playbook\nmetadata: {name: p, namespace: shop}\n"
	tests := map[string]struct {
		manifest string
		want     []string
		refused  string
	}{
		"custom resource, no items":     {manifest: custom + "items: []\n", want: []string{"Playbook/shop/p"}},
		"custom resource, items":        {manifest: custom + "items: [a, b]\n", want: []string{"Playbook/shop/p"}},
		"custom resource, object items": {manifest: custom + "items: [{kind: x}]\n", want: []string{"Playbook/shop/p"}},
		"list":                          {manifest: "apiVersion: v1\nkind: List\nitems:\n- " + oneLine(cm("a")), want: []string{"ConfigMap/shop/a"}},
		"list of a kind":                {manifest: "apiVersion: v1\nkind: ConfigMapList\nitems:\n- " + oneLine(cm("a")), want: []string{"ConfigMap/shop/a"}},
		"list of what is no object":     {manifest: "apiVersion: v1\nkind: List\nitems: [a]\n", refused: "kustomize build failed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := write(t, files{"kustomization.yaml": "resources: [x.yaml]", "x.yaml": tt.manifest})
			got, err := build.Build(root, at(""), build.Options{})
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, want %q", err, tt.refused)
				}
				return
			}
			if err != nil || !slices.Equal(ids(got), tt.want) {
				t.Errorf("%v, %v, want %v", ids(got), err, tt.want)
			}
		})
	}
}

// oneLine writes a manifest as an item of a list.
func oneLine(manifest string) string {
	return strings.ReplaceAll(strings.TrimSpace(manifest), "\n", "\n  ")
}
