package build_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// TestSpecTransformers is what the fields of the spec do to a Deployment: each expectation is a part of its JSON.
func TestSpecTransformers(t *testing.T) {
	type spec = fluxv1.KustomizationSpec
	patch := func(text string, target *kustomize.Selector) func(*spec) {
		return func(s *spec) { s.Patches = []kustomize.Patch{{Patch: text, Target: target}} }
	}
	const merge = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 7}\n"
	const json6902 = "- {op: add, path: /spec/replicas, value: 7}\n"
	deployment := strings.Replace(deploy, "namespace: shop}", "namespace: shop, labels: {team: a}, annotations: {tier: b}}", 1)
	image := func(i kustomize.Image) func(*spec) { return func(s *spec) { s.Images = []kustomize.Image{i} } }
	tests := map[string]struct {
		kustomization string
		edit          func(*spec)
		want          []string
		not           []string
	}{
		"P30 prefix and suffix replace those of the file": {kustomization: "namePrefix: x-\nnameSuffix: -y\n",
			edit: func(s *spec) { s.NamePrefix, s.NameSuffix = "p-", "-s" }, want: []string{`"p-web-s"`}, not: []string{"x-", "-y"}},
		"P29 the namespace replaces that of the file": {kustomization: "namespace: x\n", edit: func(s *spec) { s.TargetNamespace = "prod" }, want: []string{`"namespace":"prod"`}},
		"P31 strategic merge":                         {edit: patch(merge, nil), want: []string{`"replicas":7`}},
		"P31 after the patches of the file":           {kustomization: "patches: [{patch: '" + strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(merge, "7", "3"), "\n", "\n\n  ")) + "'}]\n", edit: patch(merge, nil), want: []string{`"replicas":7`}},
		"P31 JSON 6902 by kind":                       {edit: patch(json6902, &kustomize.Selector{Kind: "Deployment"}), want: []string{`"replicas":7`}},
		"P31 by group, version, name and namespace":   {edit: patch(json6902, &kustomize.Selector{Group: "apps", Version: "v1", Name: "w.*", Namespace: "shop"}), want: []string{`"replicas":7`}},
		"P31 by label":                                {edit: patch(json6902, &kustomize.Selector{LabelSelector: "team=a"}), want: []string{`"replicas":7`}},
		"P31 by annotation":                           {edit: patch(json6902, &kustomize.Selector{AnnotationSelector: "tier=b"}), want: []string{`"replicas":7`}},
		"P31 by another label":                        {edit: patch(json6902, &kustomize.Selector{LabelSelector: "team=b"}), not: []string{`"replicas"`}},
		"P33 tag":                                     {edit: image(kustomize.Image{Name: "nginx", NewTag: "2"}), want: []string{`"nginx:2"`}},
		"P33 name":                                    {edit: image(kustomize.Image{Name: "nginx", NewName: "host/n"}), want: []string{`"host/n:1.0"`}},
		"P33 digest":                                  {edit: image(kustomize.Image{Name: "nginx", Digest: "sha256:abc"}), want: []string{`"nginx@sha256:abc"`}},
		"P33 merged with the file's, name kept":       {kustomization: "images: [{name: nginx, newName: host/n, newTag: '1'}]\n", edit: image(kustomize.Image{Name: "nginx", NewTag: "2"}), want: []string{`"host/n:2"`}},
		"P33 merged, a digest takes the tag's place":  {kustomization: "images: [{name: nginx, newName: host/n, newTag: '1'}]\n", edit: image(kustomize.Image{Name: "nginx", Digest: "sha256:abc"}), want: []string{`"host/n@sha256:abc"`}, not: []string{":1"}},
		"P36 labels, replicas and images of the file": {kustomization: "labels: [{pairs: {l: m}}]\nreplicas: [{name: web, count: 4}]\nimages: [{name: nginx, newTag: '3'}]\n", want: []string{`"l":"m"`, `"replicas":4`, `"nginx:3"`}},
		"P36 annotations, prefix and suffix":          {kustomization: "commonAnnotations: {a: b}\nnamePrefix: p-\nnameSuffix: -s\n", want: []string{`"a":"b"`, `"p-web-s"`}},
		"P36 replacements":                            {kustomization: "replacements: [{source: {kind: Deployment, fieldPath: metadata.name}, targets: [{select: {kind: Deployment}, fieldPaths: [metadata.labels.team]}]}]\n", want: []string{`"team":"web"`}},
		"P36 a transformer inline":                    {kustomization: "transformers:\n- |-\n  apiVersion: builtin\n  kind: AnnotationsTransformer\n  metadata: {name: x}\n  annotations: {c: d}\n  fieldSpecs: [{path: metadata/annotations, create: true}]\n", want: []string{`"c":"d"`}},
		"P36 a transformer from a file":               {kustomization: "transformers: [t.yaml]\n", want: []string{`"namespace":"from-file"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := write(t, files{"kustomization.yaml": "resources: [d.yaml]\n" + tt.kustomization, "d.yaml": deployment,
				"t.yaml": "apiVersion: builtin\nkind: NamespaceTransformer\nmetadata: {name: x, namespace: from-file}\n"})
			edits := []func(*spec){}
			if tt.edit != nil {
				edits = append(edits, tt.edit)
			}
			got, err := build.Build(root, at("", edits...), build.Options{NoRemoteBases: true})
			if err != nil {
				t.Fatal(err)
			}
			text, err := got.Objects[0].MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %s in %s", want, text)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(string(text), not) {
					t.Errorf("%s in %s", not, text)
				}
			}
		})
	}
}

// P36: generators of the file, and from one of their own.
func TestGenerators(t *testing.T) {
	root := write(t, files{"kustomization.yaml": "configMapGenerator: [{name: c, envs: [a.env]}]\nsecretGenerator: [{name: s, files: [k=a.env]}]\ngenerators: [g.yaml]\ngeneratorOptions: {disableNameSuffixHash: true}\n",
		"a.env": "A=1\n", "g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nname: g\nliterals: [x=y]\noptions: {disableNameSuffixHash: true}\n"})
	got, err := build.Build(root, at(""), build.Options{})
	found := ids(got)
	slices.Sort(found)
	if want := []string{"ConfigMap/c", "ConfigMap/g", "Secret/s"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("P36: %q, %v, want %q", found, err, want)
	}
}

// P27: what a source leaves out is its own affair.
func TestSourceIgnoreIsNotRead(t *testing.T) {
	root := write(t, files{"app/.sourceignore": "*.yaml\n", ".sourceignore": "app\n", "app/a.yaml": cm("a")})
	if got, err := build.Build(root, at("app"), build.Options{}); err != nil || !slices.Equal(ids(got), []string{"ConfigMap/shop/a"}) {
		t.Errorf("P27: %q, %v", ids(got), err)
	}
}

// P34: a component that is not there fails the build, unless such are ignored; an absolute one always does.
func TestComponentsOfTheSpec(t *testing.T) {
	root := write(t, files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": cm("a")})
	for name, tt := range map[string]struct {
		component string
		ignore    bool
		want      string
	}{
		"P34 missing":          {component: "missing", want: "missing"},
		"P34 missing, ignored": {component: "missing", ignore: true},
		"P34 absolute":         {component: "/etc", ignore: true, want: "component path '/etc' must be local and relative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build.Build(root, at("", func(s *fluxv1.KustomizationSpec) {
				s.Components, s.IgnoreMissingComponents = []string{tt.component}, tt.ignore
			}), build.Options{})
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// C49: binary content arrives bit for bit, and takes part in the hash.
func TestC49BinaryContent(t *testing.T) {
	names := map[string]bool{}
	for _, content := range []string{allBytes(), strings.Replace(allBytes(), "\x01", "\x02", 1)} {
		root := write(t, files{"kustomization.yaml": "configMapGenerator: [{name: c, files: [f]}]\nsecretGenerator: [{name: s, files: [f]}]\n", "f": content})
		got, err := build.Build(root, at(""), build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range got.Objects {
			names[u.GetName()] = true
			field := map[string]string{"ConfigMap": "binaryData", "Secret": "data"}[u.GetKind()]
			text, _, _ := unstructured.NestedString(u.Object, field, "f")
			if plain, err := base64.StdEncoding.DecodeString(text); err != nil || string(plain) != content {
				t.Errorf("%s: %q, %v", u.GetKind(), plain, err)
			}
		}
	}
	if len(names) != 4 {
		t.Errorf("names %v, want other ones for other content", names)
	}
}
