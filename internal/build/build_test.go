package build_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// files are the contents of an artifact by path. A content that starts with "-> " is a link.
type files map[string]string

// write unpacks an artifact.
func write(t testing.TB, f files) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range f {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, isLink := strings.CutPrefix(content, "-> ")
		var err error
		if isLink {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// at returns a Kustomization of a path, changed by edits.
func at(path string, edits ...func(*fluxv1.KustomizationSpec)) *v1.Kustomization {
	ks := &v1.Kustomization{}
	ks.Name, ks.Namespace = "app", "flux-system"
	ks.Spec.Path = path
	for _, edit := range edits {
		edit(&ks.Spec.KustomizationSpec)
	}
	return ks
}

func ids(r build.Result) []string {
	var out []string
	for _, u := range r.Objects {
		out = append(out, object.IDOf(u).String())
	}
	return out
}

func cm(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: shop}\ndata: {k: v}\n"
}

const deploy = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.0", envFrom: [{configMapRef: {name: app}}]}]}
`

func TestBuild(t *testing.T) {
	type spec = fluxv1.KustomizationSpec
	tests := map[string]struct {
		files files
		path  string
		edit  func(*spec)
		want  []string
		empty build.Emptiness
	}{
		"P25 kustomization file": {
			files: files{"kustomization.yaml": "resources: [b.yaml, a.yaml]", "a.yaml": cm("a"), "b.yaml": cm("b"), "c.yaml": cm("c")},
			want:  []string{"ConfigMap/shop/b", "ConfigMap/shop/a"},
		},
		"P25 other names of the file": {files: files{"Kustomization": "resources: [a.yaml]", "a.yaml": cm("a")}, want: []string{"ConfigMap/shop/a"}},
		"P25 generated from manifests": {
			files: files{"app/a.yaml": cm("a"), "app/sub/b.yml": cm("b"), "app/notes.txt": "x", "c.yaml": cm("c"),
				"app/base/kustomization.yaml": "resources: [d.yaml]", "app/base/d.yaml": cm("d"), "app/base/e.yaml": cm("e")},
			path: "./app", want: []string{"ConfigMap/shop/a", "ConfigMap/shop/d", "ConfigMap/shop/b"},
		},
		"path with a leading slash": {files: files{"app/a.yaml": cm("a")}, path: "/app", want: []string{"ConfigMap/shop/a"}},
		"P37 base outside of the path, inside of the artifact": {
			files: files{"app/kustomization.yaml": "resources: [../base]", "base/kustomization.yaml": "resources: [a.yaml]", "base/a.yaml": cm("a")},
			path:  "app", want: []string{"ConfigMap/shop/a"},
		},
		"P28 explicitly empty (C13 a)": {files: files{"kustomization.yaml": "resources: []"}, empty: build.EmptyExplicit},
		"P28 no resources in the file": {files: files{"kustomization.yaml": "kind: Kustomization"}, empty: build.EmptyUnexplained},
		"misspelt resources":           {files: files{"kustomization.yaml": "resourcez: [a.yaml]", "a.yaml": cm("a")}, empty: build.EmptyUnexplained},
		"null resources":               {files: files{"kustomization.yaml": "resources:"}, empty: build.EmptyUnexplained},
		"P28 directory without manifests (C13 b)": {
			files: files{"app/README": "x"}, path: "app", empty: build.EmptyUnexplained},
		"empty file is not meant": {
			files: files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "# nothing\n"}, empty: build.EmptyUnexplained},
		"P29 P30 target namespace, prefix and suffix": {
			files: files{"kustomization.yaml": "namespace: x\nnamePrefix: y-\nresources: [a.yaml]", "a.yaml": cm("a")},
			edit:  func(s *spec) { s.TargetNamespace, s.NamePrefix, s.NameSuffix = "prod", "p-", "-s" },
			want:  []string{"ConfigMap/prod/p-a-s"},
		},
		"P29 target namespace without manifests": {
			files: files{"README": "x"}, edit: func(s *spec) { s.TargetNamespace = "prod" }, empty: build.EmptyUnexplained},
		"P34 components, a missing one ignored": {
			files: files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": cm("a"), "b.yaml": cm("b"),
				"extra/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [../b.yaml]"},
			edit: func(s *spec) { s.Components, s.IgnoreMissingComponents = []string{"extra", "missing"}, true },
			want: []string{"ConfigMap/shop/a", "ConfigMap/shop/b"},
		},
		"P32 patches that delete": {
			files: files{"kustomization.yaml": "resources: [a.yaml, b.yaml, c.yaml]", "a.yaml": cm("a"), "b.yaml": cm("b"), "c.yaml": cm("c")},
			edit: func(s *spec) {
				del := func(n string) string {
					return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + n + ", namespace: shop}\n$patch: delete\n"
				}
				s.Patches = []kustomize.Patch{{Patch: del("a") + "---\n" + del("b")}}
			},
			want: []string{"ConfigMap/shop/c"},
		},
		"P41 lists are flattened": {
			files: files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "apiVersion: v1\nkind: List\nitems:\n- " +
				strings.ReplaceAll(strings.TrimSpace(cm("a")), "\n", "\n  ") + "\n- " + strings.ReplaceAll(strings.TrimSpace(cm("b")), "\n", "\n  ")},
			want: []string{"ConfigMap/shop/a", "ConfigMap/shop/b"},
		},
		"link to a sibling directory (C49)": {
			files: files{"app/a.yaml": cm("a"), "shared/b.yaml": cm("b"), "app/shared": "-> ../shared"},
			path:  "app", want: []string{"ConfigMap/shop/a", "ConfigMap/shop/b"},
		},
		"link to a base": {
			files: files{"app/README": "x", "base/kustomization.yaml": "resources: [b.yaml]", "base/b.yaml": cm("b"),
				"base/c.yaml": cm("c"), "app/base": "-> ../base"},
			path: "app", want: []string{"ConfigMap/shop/b"},
		},
		"link as a resource": {
			files: files{"app/kustomization.yaml": "resources: [a.yaml]", "other.yaml": cm("a"), "app/a.yaml": "-> ../other.yaml"},
			path:  "app", want: []string{"ConfigMap/shop/a"},
		},
		"path through a link": {files: files{"real/a.yaml": cm("a"), "now": "-> real"}, path: "now", want: []string{"ConfigMap/shop/a"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := write(t, tt.files)
			edits := []func(*spec){}
			if tt.edit != nil {
				edits = append(edits, tt.edit)
			}
			before := snapshot(t, root)
			got, err := build.Build(root, at(tt.path, edits...), build.Options{NoRemoteBases: true})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(ids(got), tt.want) {
				t.Errorf("objects %q, want %q", ids(got), tt.want)
			}
			if got.Empty != tt.empty {
				t.Errorf("empty %q, want %q", got.Empty, tt.empty)
			}
			if after := snapshot(t, root); !slices.Equal(before, after) {
				t.Errorf("the artifact was changed: %q, was %q", after, before)
			}
			again, err := build.Build(write(t, tt.files), at(tt.path, edits...), build.Options{})
			if err != nil || again.Digest != got.Digest || !strings.HasPrefix(got.Digest, "sha256:") {
				t.Errorf("from another directory: digest %s, want %s (%v)", again.Digest, got.Digest, err)
			}
		})
	}
}

func snapshot(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		out = append(out, path+" "+info.ModTime().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGeneratedNames(t *testing.T) {
	root := write(t, files{
		"kustomization.yaml": "resources: [deploy.yaml]\nnamespace: shop\nconfigMapGenerator: [{name: app, literals: [k=1], files: [all.bin]}]",
		"deploy.yaml":        deploy, "all.bin": allBytes(),
	})
	got, err := build.Build(root, at("", func(s *fluxv1.KustomizationSpec) {
		s.Images = []kustomize.Image{{Name: "nginx", NewTag: "2.0"}}
		s.CommonMetadata = &fluxv1.CommonMetadata{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"n": "b"}}
	}), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web, config := got.Objects[0], got.Objects[1]
	if !strings.HasPrefix(config.GetName(), "app-") {
		t.Fatalf("no hash in %s", config.GetName())
	}
	text, err := web.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"nginx:2.0"`, `"name":"` + config.GetName() + `"`, `"team":"a"`, `"n":"b"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if web.GetLabels()["team"] != "a" || config.GetAnnotations()["n"] != "b" {
		t.Errorf("no common metadata: %v %v", web.GetLabels(), config.GetAnnotations())
	}
	if _, ok := config.Object["binaryData"].(map[string]any)["all.bin"]; !ok {
		t.Errorf("no binary data in %v", config.Object)
	}
}

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// P35: origins are noted while the spec asks for it.
func TestBuildMetadata(t *testing.T) {
	root := write(t, files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": cm("a")})
	for _, on := range []bool{true, false} {
		got, err := build.Build(root, at("", func(s *fluxv1.KustomizationSpec) {
			if on {
				s.BuildMetadata = []fluxv1.BuildMetadataOption{"originAnnotations"}
			}
		}), build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := got.Objects[0].GetAnnotations()["config.kubernetes.io/origin"]; ok != on {
			t.Errorf("origin annotation %v, want %v", ok, on)
		}
	}
}

// as tells whether the error is of the type, and the text holds what is wanted.
func as[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

func TestErrors(t *testing.T) {
	ref := func(s string) files { return files{"kustomization.yaml": s, "a.yaml": cm("a")} }
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: run-}\nspec: {}\n"
	doubled := strings.Replace(deploy, "image:", "env: [{name: A, value: x}, {name: A, value: y}], image:", 1)
	ports := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{name: a, port: 80}, {name: b, port: 80, protocol: TCP}]}\n"
	tests := map[string]struct {
		files files
		path  string
		edit  func(*fluxv1.KustomizationSpec)
		is    func(error) bool
		want  []string
	}{
		"P19 missing path (C13 c)":   {path: "./nope", is: as[*build.PathNotFound], want: []string{"kustomization path not found: ", "nope"}},
		"path is a file":             {files: ref("resources: []"), path: "a.yaml", is: as[*build.PathNotFound], want: []string{"kustomization path not found: "}},
		"P19 C49 path leaves":        {path: "../..", is: as[*build.OutsideError], want: []string{"../.."}},
		"C49 path is a link outside": {files: files{"out": "-> /etc"}, path: "out", is: as[*build.OutsideError], want: []string{"out"}},
		"C49 path is a loop":         {files: files{"l": "-> m", "m": "-> l"}, path: "l", is: as[*build.PathNotFound]},
		"P37 C49 resource leaves":    {files: ref("resources: [../../../../../../../etc]"), is: as[*build.OutsideError], want: []string{"etc", "kustomization.yaml"}},
		"P37 C49 absolute resource":  {files: ref("resources: [/etc/hostname]"), is: as[*build.OutsideError], want: []string{"/etc/hostname"}},
		"P37 C49 generator leaves": {files: ref("configMapGenerator: [{name: x, files: [k=/etc/passwd]}]"), is: as[*build.OutsideError],
			want: []string{"/etc/passwd"}},
		"C49 linked file outside": {files: files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "-> /etc/passwd"}, is: as[*build.OutsideError],
			want: []string{"a.yaml"}},
		"C49 link chain outside": {files: files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "-> b.yaml", "b.yaml": "-> ../x/../../etc/passwd"},
			is: as[*build.ObjectError], want: []string{"a.yaml"}},
		"kustomization file outside":       {files: files{"kustomization.yaml": "-> /etc/passwd"}, is: as[*build.OutsideError], want: []string{"kustomization.yaml"}},
		"link to nothing":                  {files: files{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": "-> b.yaml"}, is: as[*build.ObjectError], want: []string{"a.yaml"}},
		"link outside, generated":          {files: files{"a.yaml": "-> /etc/passwd"}, is: as[*build.OutsideError], want: []string{"a.yaml"}},
		"linked dir, generated":            {files: files{"sub/d": "-> /etc"}, is: as[*build.OutsideError], want: []string{"sub/d", "/etc"}},
		"dangling, generated":              {files: files{"d": "-> nowhere"}, is: as[*build.ObjectError], want: []string{"(in d)"}},
		"patch leaves":                     {files: ref("resources: [a.yaml]\npatches: [{path: ../../p.yaml}]"), is: as[*build.OutsideError]},
		"C49 git from disk":                {files: ref("resources: ['file:///etc/repo']"), is: as[*build.OutsideError], want: []string{"file:///etc/repo"}},
		"P37 C49 helm charts":              {files: ref("helmCharts: [{name: x, repo: 'https://example.invalid'}]"), is: as[*build.UnsupportedError], want: []string{"helmCharts"}},
		"P37 C49 helm charts in a base":    {files: files{"kustomization.yaml": "resources: [b]", "b/kustomization.yaml": "HelmCharts: [{name: x}]"}, is: as[*build.UnsupportedError], want: []string{"b/kustomization.yaml"}},
		"P37 C49 exec plugin":              {files: files{"kustomization.yaml": "resources: [a.yaml]\ngenerators: [g.yaml]", "a.yaml": cm("a"), "g.yaml": "apiVersion: example.com/v1\nkind: Gen\nmetadata: {name: g}\n"}, is: as[*build.Error], want: []string{"kustomize build failed: ", "plugin"}},
		"P34 remote component in the spec": {files: ref("resources: [a.yaml]"), edit: func(s *fluxv1.KustomizationSpec) { s.Components = []string{"https://host/x"} }, is: as[*build.Error], want: []string{"component path 'https://host/x' must be local and relative"}},
		"missing resource":                 {files: ref("resources: [b.yaml]"), is: as[*build.Error], want: []string{"kustomize build failed: ", "b.yaml"}},
		"unknown field in a base":          {files: files{"kustomization.yaml": "resources: [b]", "b/kustomization.yaml": "resourcez: []"}, is: as[*build.Error], want: []string{"resourcez"}},
		"P40 no kind": {files: files{"kustomization.yaml": "resources: [x/a.yaml]", "x/a.yaml": "apiVersion: v1\nmetadata: {name: a}\n"}, is: as[*build.ObjectError],
			want: []string{"kustomize build failed: ", "failed to decode Kubernetes apiVersion, kind and name from: ", "x/a.yaml"}},
		"P26 bad manifest, generated": {files: files{"x/a.yaml": "apiVersion: v1\nmetadata: {name: a}\n"}, is: as[*build.ObjectError],
			want: []string{"failed to decode Kubernetes YAML from x/a.yaml"}},
		"P26 no YAML, generated":     {files: files{"a.yaml": "a: b: c"}, is: as[*build.Error], want: []string{"failed to decode Kubernetes YAML from a.yaml"}},
		"generateName (C43 c)":       {files: files{"kustomization.yaml": "resources: [j.yaml]", "j.yaml": job}, is: as[*build.ObjectError], want: []string{"Job/", "generateName", "j.yaml"}},
		"generateName, generated":    {files: files{"j.yaml": job}, is: as[*build.ObjectError], want: []string{"Job/", "generateName", "j.yaml"}},
		"bad item of a list (C43 d)": {files: files{"l.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: ConfigMap}]"}, is: as[*build.ObjectError], want: []string{"l.yaml"}},
		"one id in two files (C43 e)": {files: files{"kustomization.yaml": "resources: [a.yaml, b.yaml]", "a.yaml": cm("a"), "b.yaml": cm("a")}, is: as[*build.DuplicateError],
			want: []string{"ConfigMap/shop/a", "a.yaml", "b.yaml"}},
		"one id in two versions": {files: files{"kustomization.yaml": "resources: [a.yaml, b.yaml]", "a.yaml": deploy, "b.yaml": strings.Replace(deploy, "apps/v1", "apps/v1beta1", 1)}, is: as[*build.DuplicateError],
			want: []string{"Deployment/shop/web", "a.yaml", "b.yaml"}},
		"env twice (C43 a)": {files: files{"d/x.yaml": doubled}, is: as[*build.ObjectError],
			want: []string{"Deployment/shop/web", "spec.template.spec.containers[0].env", "name A", "d/x.yaml"}},
		"port twice (C43 b)": {files: files{"s.yaml": ports}, is: as[*build.ObjectError], want: []string{"Service/web", "spec.ports", "port 80", "s.yaml"}},
		"two kustomization files": {files: files{"kustomization.yaml": "resources: []", "Kustomization": "resources: []"},
			is: as[*build.Error], want: []string{"multiple kustomization files"}},
		"cycle": {files: files{"a/kustomization.yaml": "resources: [../b]", "b/kustomization.yaml": "resources: [../a]"}, path: "a", is: as[*build.Error], want: []string{"cycle"}},
		"patch without a target": {files: ref("resources: [a.yaml]"), edit: func(s *fluxv1.KustomizationSpec) {
			s.Patches = []kustomize.Patch{{Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: zzz}\n"}}
		}, is: as[*build.Error], want: []string{"zzz"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := write(t, tt.files)
			edits := []func(*fluxv1.KustomizationSpec){}
			if tt.edit != nil {
				edits = append(edits, tt.edit)
			}
			got, err := build.Build(root, at(tt.path, edits...), build.Options{})
			if err == nil {
				t.Fatalf("no error, got %q", ids(got))
			}
			if !tt.is(err) {
				t.Errorf("error of another type: %T: %v", err, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), os.TempDir()) || strings.Contains(err.Error(), "/kustomize-") {
				t.Errorf("a path of the disk in: %v", err)
			}
		})
	}
}

// P38, C49: with the flag nothing is fetched, and the reference is named.
func TestNoRemoteBases(t *testing.T) {
	for name, content := range map[string]string{
		"git":         "resources: ['https://example.invalid/org/repo']",
		"git by host": "resources: ['github.com/org/repo']",
		"ssh":         "resources: ['git@example.invalid:org/repo']",
		"file":        "resources: ['https://example.invalid/a.yaml']",
		"component":   "components: ['https://example.invalid/org/repo']",
		"patch":       "patches: [{path: 'https://example.invalid/p.yaml'}]",
		"generator":   "configMapGenerator: [{name: a, files: ['k=https://example.invalid/f']}]",
		"env":         "secretGenerator: [{name: a, envs: ['http://example.invalid/f']}]",
		"openapi":     "openapi: {path: 'https://example.invalid/s.json'}",
		"crds":        "crds: ['https://example.invalid/c.json']",
		"inline": "transformers:\n- |-\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: x}\n" +
			"  path: https://example.invalid/p.yaml\n",
		"base": "resources: [sub]",
	} {
		t.Run(name, func(t *testing.T) {
			root := write(t, files{"kustomization.yaml": content, "sub/kustomization.yaml": "bases: ['https://example.invalid/org/repo']"})
			_, err := build.Build(root, at(""), build.Options{NoRemoteBases: true})
			if !as[*build.UnsupportedError](err) || !strings.Contains(err.Error(), "not supported") {
				t.Errorf("%T: %v", err, err)
			}
		})
	}
}

// P38: what is fetched is said, since the same artifact may render to something else next time.
func TestRemoteFile(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/b.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(cm("b")))
	}))
	defer server.Close()
	root := write(t, files{
		"good/kustomization.yaml": "resources: [a.yaml, '" + server.URL + "/b.yaml']", "good/a.yaml": cm("a"),
		"bad/kustomization.yaml": "resources: ['" + server.URL + "/c.yaml']",
	})
	got, err := build.Build(root, at("good"), build.Options{})
	if err != nil || !slices.Equal(ids(got), []string{"ConfigMap/shop/a", "ConfigMap/shop/b"}) || !got.Remote {
		t.Errorf("%q, remote %v, %v", ids(got), got.Remote, err)
	}
	if _, err := build.Build(root, at("bad"), build.Options{}); !as[*build.Error](err) || !strings.Contains(err.Error(), "404") {
		t.Errorf("%T: %v", err, err)
	}
}
