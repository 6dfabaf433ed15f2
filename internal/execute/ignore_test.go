package execute_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/ssa/jsondiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// P90, P91: what a rule ignores is no drift, and a change beside it does not set it back.
func TestApplyIgnores(t *testing.T) {
	with := func(version, other string) *unstructured.Unstructured {
		u := obj("v1", "ConfigMap/a/x", of(version))
		u.Object["data"].(map[string]any)["other"] = other
		return u
	}
	ignored := func(selector *jsondiff.Selector) []jsondiff.IgnoreRule {
		return []jsondiff.IgnoreRule{{Paths: []string{"/data/version"}, Selector: selector}}
	}
	for name, tt := range map[string]struct {
		want    *unstructured.Unstructured
		rules   []jsondiff.IgnoreRule
		changed bool
		version string
	}{
		"P91 no rule":                          {want: with("1", "x"), changed: true, version: "1"},
		"P90 a rule for all":                   {want: with("1", "x"), rules: ignored(nil), version: "live"},
		"P90 a rule for this":                  {want: with("1", "x"), rules: ignored(&jsondiff.Selector{Kind: "Config.*", Name: "x"}), version: "live"},
		"P90 regular expressions are anchored": {want: with("1", "x"), rules: ignored(&jsondiff.Selector{Kind: "Config"}), changed: true, version: "1"},
		"P91 changed beside it":                {want: with("1", "y"), rules: ignored(nil), changed: true, version: "live"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(with("live", "x"))
			got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{tt.want}, Ignore: tt.rules})
			if err != nil {
				t.Fatal(err)
			}
			if changed := len(got.Changes) > 0; changed != tt.changed {
				t.Errorf("changes %q, want some: %v", got.Changes, tt.changed)
			}
			for id, live := range a.objects {
				version, found, _ := unstructured.NestedString(live.Object, "data", "version")
				if !found || version != tt.version {
					t.Errorf("%s has %q, want %q", id, version, tt.version)
				}
			}
			if applied := slices.ContainsFunc(a.calls, func(c string) bool { return strings.HasPrefix(c, "apply ") }); applied != tt.changed {
				t.Errorf("calls %q", a.calls)
			}
		})
	}
}
