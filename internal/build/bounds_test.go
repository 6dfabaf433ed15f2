package build_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
)

// bomb is an object of a few lines whose aliases stand for billions of nodes.
func bomb() string {
	var b strings.Builder
	b.WriteString(cm("a") + "a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Trim(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return b.String()
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// A few lines that stand for billions of nodes, or for themselves, are refused wherever kustomize would read them: it would take all
// memory, or overflow its stack, and the process would end for all tenants.
func TestAliasBombs(t *testing.T) {
	const kustomization = "kustomization.yaml"
	circle := cm("a") + "x: &x [*x]\n"
	tests := map[string]struct {
		files files
		ks    *v1.Kustomization
		in    string
	}{
		"without a kustomization file": {files: files{"sub/a.yaml": bomb()}, in: "sub/a.yaml"},
		"by a link":                    {files: files{"app/a.yaml": "-> ../b.txt", "b.txt": bomb()}, ks: at("app"), in: "app/a.yaml"},
		"a resource":                   {files: files{kustomization: "resources: [a.yaml]\n", "a.yaml": bomb()}, in: "a.yaml"},
		"a resource of a base":         {files: files{kustomization: "resources: [base]\n", "base/" + kustomization: "resources: [a.txt]\n", "base/a.txt": bomb()}, in: "base/a.txt"},
		"a component":                  {files: files{kustomization: "components: [c]\n", "c/" + kustomization: "kind: Component\nresources: [a.yaml]\n", "c/a.yaml": bomb()}, in: "c/a.yaml"},
		"a patch":                      {files: files{kustomization: "resources: [b.yaml]\npatches: [{path: a.yaml}]\n", "b.yaml": cm("a"), "a.yaml": bomb()}, in: "a.yaml"},
		"a patch in the file":          {files: files{kustomization: "resources: [b.yaml]\npatches:\n- patch: |\n" + indented(bomb()), "b.yaml": cm("a")}, in: kustomization},
		"a merge patch in the file":    {files: files{kustomization: "resources: [b.yaml]\npatchesStrategicMerge:\n- |\n" + indented(bomb()), "b.yaml": cm("a")}, in: kustomization},
		"a patch of the spec": {files: files{kustomization: "resources: [b.yaml]\n", "b.yaml": cm("a")}, in: kustomization,
			ks: at("", func(s *fluxv1.KustomizationSpec) { s.Patches = []kustomize.Patch{{Patch: bomb()}} })},
		"a transformer":         {files: files{kustomization: "resources: [b.yaml]\ntransformers: [a.yaml]\n", "b.yaml": cm("a"), "a.yaml": bomb()}, in: "a.yaml"},
		"a generator":           {files: files{kustomization: "generators: [a.yaml]\n", "a.yaml": bomb()}, in: "a.yaml"},
		"a configuration":       {files: files{kustomization: "resources: [b.yaml]\nconfigurations: [a.yaml]\n", "b.yaml": cm("a"), "a.yaml": bomb()}, in: "a.yaml"},
		"a replacement":         {files: files{kustomization: "resources: [b.yaml]\nreplacements: [{path: a.yaml}]\n", "b.yaml": cm("a"), "a.yaml": bomb()}, in: "a.yaml"},
		"itself":                {files: files{"a.yaml": circle}, in: "a.yaml"},
		"itself, as a resource": {files: files{kustomization: "resources: [a.yaml]\n", "a.yaml": circle}, in: "a.yaml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ks := tt.ks
			if ks == nil {
				ks = at("")
			}
			_, err := build.Build(write(t, tt.files), ks, build.Options{})
			var bound *build.BoundsError
			if !errors.As(err, &bound) || bound.File != tt.in || !strings.Contains(err.Error(), "alias") {
				t.Errorf("error %v, want %s refused for its aliases", err, tt.in)
			}
		})
	}
}

// The kustomization file itself is read by a parser that has a bound of its own.
func TestAliasBombInTheKustomizationFile(t *testing.T) {
	if _, err := build.Build(write(t, files{"kustomization.yaml": bomb()}), at(""), build.Options{}); err == nil || !strings.Contains(err.Error(), "alias") {
		t.Errorf("error %v", err)
	}
}

// What a build may read is bounded, whatever it is read as; aliases that stand for little are fine.
func TestBuildsAreBounded(t *testing.T) {
	huge := strings.Repeat("# "+strings.Repeat("x", 1022)+"\n", 40<<10)
	for name, f := range map[string]files{
		"one by one":           {"a.yaml": cm("a") + huge, "b.yaml": cm("b") + huge},
		"as resources":         {"kustomization.yaml": "resources: [a.yaml, b.yaml]\n", "a.yaml": cm("a") + huge, "b.yaml": cm("b") + huge},
		"as generated content": {"kustomization.yaml": "configMapGenerator: [{name: a, files: [a.txt, b.txt]}]\n", "a.txt": huge, "b.txt": huge},
	} {
		var bound *build.BoundsError
		if _, err := build.Build(write(t, f), at(""), build.Options{}); !errors.As(err, &bound) || !strings.Contains(err.Error(), "64 MiB") {
			t.Errorf("%s: error %v, want the size refused", name, err)
		}
	}
	few := cm("a") + "metadata2: &m {labels: {a: b}}\nmore: [*m, *m]\n"
	if _, err := build.Build(write(t, files{"a.yaml": few}), at(""), build.Options{}); err != nil {
		t.Errorf("a few aliases: %v", err)
	}
}

// What nests deeply is built or refused, and ends nothing.
func TestDeepNesting(t *testing.T) {
	for depth, fails := range map[int]bool{5000: false, 200_000: true} {
		deep := cm("a") + "more: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n"
		for _, f := range []files{{"a.yaml": deep}, {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": deep}} {
			if _, err := build.Build(write(t, f), at(""), build.Options{}); (err != nil) != fails {
				t.Errorf("%d levels: %v", depth, err)
			}
		}
	}
}
