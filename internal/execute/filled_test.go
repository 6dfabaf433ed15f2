package execute

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parsed(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestFilled, C42: an empty list that somebody else has filled is left to them, unless it says who may do what, or is asked for.
func TestFilled(t *testing.T) {
	const widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
	const owned = `{"f:spec": {"f:a/b": {}, "f:hooks": {"k:{\"name\":\"x\"}": {"f:rules": {}}, "k:{\"name\":\"y\"}": {"f:rules": {}}}, "f:whole": {}}}`
	filledSpec := "spec: {a/b: [1], hooks: [{name: x, rules: [1]}, {name: z}], whole: [{list: [1]}], mine: [1]}"
	for name, tt := range map[string]struct {
		desired, live, owner string
		subresource          string
		want                 []string
	}{
		"filled by a controller":  {desired: widget + "spec: {a/b: []}", want: []string{"/spec/a~1b"}},
		"not empty":               {desired: widget + "spec: {a/b: [2]}"},
		"no list":                 {desired: widget + "spec: {a/b: {}}"},
		"not filled":              {desired: widget + "spec: {a/b: []}", live: widget + "spec: {a/b: []}"},
		"filled by nobody else":   {desired: widget + "spec: {mine: []}"},
		"in an item":              {desired: widget + "spec: {hooks: [{name: x, rules: []}]}", want: []string{"/spec/hooks/0/rules"}},
		"in an item that moved":   {desired: widget + "spec: {hooks: [{name: z}, {name: x, rules: []}]}"},
		"in a list owned whole":   {desired: widget + "spec: {whole: [{list: []}]}"},
		"there is none":           {desired: widget + "spec: {a/b: []}", live: "none"},
		"by us":                   {desired: widget + "spec: {a/b: []}", owner: "kustomize-controller"},
		"by a person":             {desired: widget + "spec: {a/b: []}", owner: "kubectl-edit"},
		"by an overridden one":    {desired: widget + "spec: {a/b: []}", owner: "helm"},
		"in a subresource":        {desired: widget + "spec: {a/b: []}", subresource: "status"},
		"asked for":               {desired: "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, annotations: {kustomize.toolkit.fluxcd.io/ssa: Override}}\nspec: {a/b: []}"},
		"who may talk":            {desired: "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: w}\nspec: {a/b: []}"},
		"who may do what":         {desired: "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: w}\nspec: {a/b: []}"},
		"what roles put together": {desired: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: w}\naggregationRule: {}\nspec: {a/b: []}", want: []string{"/spec/a~1b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.live == "" {
				tt.live = widget + filledSpec
			}
			if tt.owner == "" {
				tt.owner = "filler"
			}
			var live *unstructured.Unstructured
			if tt.live != "none" {
				live = parsed(t, tt.live)
				live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: tt.owner, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: tt.subresource,
					FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(owned)}})
			}
			var got []string
			for _, f := range filled(parsed(t, tt.desired), live, cleanup([]string{"helm"}).FieldManagers) {
				got = append(got, f.Path)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("left alone: %q, want %q", got, tt.want)
			}
		})
	}
}
