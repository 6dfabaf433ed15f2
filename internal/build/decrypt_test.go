package build_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/getsops/sops/v3/keys"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/decrypt"
	"github.com/holdfast-gitops/holdfast/internal/testkit/sopsfile"
)

// sealer encrypts for one key, and decrypts with it.
type sealer struct {
	t                   *testing.T
	identity, recipient string
}

func newSealer(t *testing.T) *sealer {
	identity, recipient := sopsfile.AgeKey(t)
	return &sealer{t: t, identity: identity, recipient: recipient}
}

func (s *sealer) seal(format, plain string) string {
	return sopsfile.Encrypt(s.t, sopsfile.Options{Format: format, EncryptedRegex: map[string]string{"yaml": "^(data|stringData)$"}[format],
		Keys: []keys.MasterKey{sopsfile.Age(s.t, s.recipient)}}, plain)
}

func (s *sealer) decrypter() build.Decrypter {
	keys, err := decrypt.ParseAgeKeys(types.NamespacedName{}, map[string][]byte{"a.agekey": []byte(s.identity)})
	if err != nil {
		s.t.Fatal(err)
	}
	return decrypt.New(s.t.Context(), keys)
}

// contents are the decoded data of the Secrets and the data of the ConfigMaps of a build, as kind/key=value.
func contents(t *testing.T, r build.Result) []string {
	t.Helper()
	var out []string
	for _, u := range r.Objects {
		for _, field := range []string{"data", "stringData"} {
			content, _ := u.Object[field].(map[string]any)
			for key, v := range content {
				text, _ := v.(string)
				if u.GetKind() == "Secret" && field == "data" {
					plain, err := base64.StdEncoding.DecodeString(text)
					if err != nil {
						t.Fatal(err)
					}
					text = string(plain)
				}
				out = append(out, u.GetKind()+"/"+key+"="+strings.TrimSpace(text))
			}
		}
	}
	slices.Sort(out)
	return out
}

// P57, P58, P59, C46 b: whatever is encrypted is plain in the build, wherever the file is that names it, and the artifact stays as it is.
func TestDecryption(t *testing.T) {
	s := newSealer(t)
	const base = "secretGenerator:\n- {name: s, envs: [app.env]}\n"
	dotenv := s.seal("dotenv", "A=1\nB=2\n")
	tests := map[string]struct {
		files files
		path  string
		edit  func(*fluxv1.KustomizationSpec)
		want  []string
	}{
		"P57 whole object":                {files: files{"s.yaml": s.seal("yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\nstringData:\n    p: q\n")}, want: []string{"Secret/p=q"}},
		"P57 another kind":                {files: files{"s.yaml": s.seal("yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n    name: s\ndata:\n    p: q\n")}, want: []string{"ConfigMap/p=q"}},
		"P58 value of a generated Secret": {files: files{"kustomization.yaml": "secretGenerator:\n- {name: s, files: [token=t.yaml]}\n", "t.yaml": s.seal("binary", "x")}, want: []string{"Secret/token=x"}},
		"P59 envs":                        {files: files{"kustomization.yaml": base, "app.env": dotenv}, want: []string{"Secret/A=1", "Secret/B=2"}},
		"P59 env, the old field":          {files: files{"kustomization.yaml": "secretGenerator:\n- {name: s, env: app.txt}\n", "app.txt": dotenv}, want: []string{"Secret/A=1", "Secret/B=2"}},
		"P59 files":                       {files: files{"kustomization.yaml": "secretGenerator:\n- {name: s, files: [c.json, token]}\n", "c.json": s.seal("json", `{"a": "b"}`), "token": s.seal("binary", "x")}, want: []string{"Secret/c.json={\n\t\"a\": \"b\"\n}", "Secret/token=x"}},
		"C46 b two bases up":              {files: files{"app/kustomization.yaml": "resources: [../mid]", "mid/kustomization.yaml": "resources: [../base]", "base/kustomization.yaml": base, "base/app.env": dotenv}, path: "app", want: []string{"Secret/A=1", "Secret/B=2"}},
		"C46 b component":                 {files: files{"app/kustomization.yaml": "components: [../c]", "c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n" + base, "c/app.env": dotenv}, path: "app", want: []string{"Secret/A=1", "Secret/B=2"}},
		"C46 b component of the spec": {files: files{"app/kustomization.yaml": "resources: []", "c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n" + base, "c/app.env": dotenv}, path: "app",
			edit: func(s *fluxv1.KustomizationSpec) { s.Components = []string{"../c"} }, want: []string{"Secret/A=1", "Secret/B=2"}},
		"C46 b through a link":             {files: files{"app/kustomization.yaml": "resources: [base]", "app/base": "-> ../real", "real/kustomization.yaml": base, "real/app.env": "-> ../x.env", "x.env": dotenv}, path: "app", want: []string{"Secret/A=1", "Secret/B=2"}},
		"P59 a ConfigMap of the same file": {files: files{"kustomization.yaml": base + "configMapGenerator:\n- {name: c, envs: [app.env]}\n", "app.env": dotenv}, want: []string{"ConfigMap/A=1", "ConfigMap/B=2", "Secret/A=1", "Secret/B=2"}},
		"P59 patch": {files: files{"kustomization.yaml": "resources: [s.yaml]\npatches: [{path: p.yaml}]\n", "s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n",
			"p.yaml": s.seal("yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\nstringData:\n    p: q\n")}, want: []string{"Secret/p=q"}},
		"P59 beside a patch of the spec": {files: files{"kustomization.yaml": base + "resources: [a.yaml]\n", "a.yaml": cm("a"), "app.env": dotenv},
			edit: func(s *fluxv1.KustomizationSpec) {
				s.Patches = []kustomize.Patch{{Patch: "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: shop}\ndata: {k: w}\n"}}
			},
			want: []string{"ConfigMap/k=w", "Secret/A=1", "Secret/B=2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := write(t, tt.files)
			before := snapshot(t, root)
			edits := []func(*fluxv1.KustomizationSpec){}
			if tt.edit != nil {
				edits = append(edits, tt.edit)
			}
			got, err := build.Build(root, at(tt.path, edits...), build.Options{Decrypter: s.decrypter()})
			if err != nil {
				t.Fatal(err)
			}
			if found := contents(t, got); !slices.Equal(found, tt.want) {
				t.Errorf("%q, want %q", found, tt.want)
			}
			if whole := strings.HasPrefix(name, "P57"); whole != (len(got.Decrypted) == 1) || whole == got.SecretsAnywhere {
				t.Errorf("decrypted objects are %v, and secrets may be anywhere: %t", got.Decrypted, got.SecretsAnywhere)
			}
			if err := build.CheckDecrypted(got.Objects); err != nil {
				t.Error(err)
			}
			if after := snapshot(t, root); !slices.Equal(before, after) {
				t.Errorf("the artifact was changed: %q, was %q", after, before)
			}
		})
	}
}

// C46 a: the hash is of the plain content, so that encrypting it again changes nothing.
func TestC46EncryptedAgain(t *testing.T) {
	s := newSealer(t)
	digests := map[string]bool{}
	for range 2 {
		root := write(t, files{"kustomization.yaml": "secretGenerator:\n- {name: s, envs: [app.env]}\n", "app.env": s.seal("dotenv", "A=1\n")})
		got, err := build.Build(root, at(""), build.Options{Decrypter: s.decrypter()})
		if err != nil {
			t.Fatal(err)
		}
		digests[got.Digest] = true
	}
	if len(digests) != 1 {
		t.Errorf("%v", digests)
	}
}

// C46 c, P60, P72: what can't be decrypted is refused, naming the file or the object, and neither a value nor the disk.
func TestDecryptionFails(t *testing.T) {
	s, other := newSealer(t), newSealer(t)
	const generator = "secretGenerator:\n- {name: s, envs: [app.env]}\n"
	tests := map[string]struct {
		files files
		want  string
	}{
		"P72 source, another key": {files{"kustomization.yaml": "resources: [base]", "base/kustomization.yaml": generator, "base/app.env": other.seal("dotenv", "A=hunter2\n")},
			"error decrypting sources: base/app.env: cannot get sops data key: "},
		"P72 object, another key": {files{"s.yaml": other.seal("yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\nstringData:\n    p: hunter2\n")},
			"decryption failed for 'Secret.v1.[noGrp]/s': failed to decrypt and format '/s' Secret data: cannot get sops data key: "},
		"C46 d plain among encrypted": {files{"kustomization.yaml": generator, "app.env": s.seal("dotenv", "A=1\n") + "B=hunter2\n"},
			"error decrypting sources: app.env: error decrypting sops tree: Input string <redacted> does not match"},
		"P60 too large":            {files{"kustomization.yaml": generator, "app.env": strings.Repeat("#", decrypt.MaxFile+1)}, "error decrypting sources: app.env: cannot decrypt file with size (5242881 bytes) exceeding limit (5242880)"},
		"P60 irregular":            {files{"kustomization.yaml": generator, "app.env/x": ""}, "error decrypting sources: app.env: cannot decrypt irregular file"},
		"P60 link out":             {files{"kustomization.yaml": generator, "app.env": "-> /etc/passwd"}, "leads out of the artifact"},
		"P60 missing":              {files{"kustomization.yaml": generator}, "kustomize build failed: "},
		"P60 two files":            {files{"kustomization.yaml": "resources: [base]", "base/kustomization.yaml": "resources: []", "base/Kustomization": "resources: []"}, "kustomize build failed: "},
		"P60 no file":              {files{"kustomization.yaml": "resources: [base]", "base/x": ""}, "kustomize build failed: "},
		"P70 a patch that is none": {files{"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": cm("a"), "p.yaml": s.seal("yaml", "data:\n    p: hunter2\n")}, "kustomize build failed: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := build.Build(write(t, tt.files), at(""), build.Options{Decrypter: s.decrypter()})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v\nwant %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), os.TempDir()) {
				t.Errorf("a value or a path of the disk in: %v", err)
			}
		})
	}
}

// P62: with the annotation an object stays encrypted, and passes.
func TestDecryptionOptOut(t *testing.T) {
	s := newSealer(t)
	root := write(t, files{"s.yaml": s.seal("yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\n    annotations:\n        kustomize.toolkit.fluxcd.io/decrypt: Disabled\nstringData:\n    p: q\n")})
	got, err := build.Build(root, at(""), build.Options{Decrypter: s.decrypter()})
	if err != nil || !build.IsEncrypted(got.Objects[0]) || build.CheckDecrypted(got.Objects) != nil {
		t.Errorf("%v, %v", got.Objects, err)
	}
}

// P43: what was decrypted is substituted.
func TestDecryptionComesBeforeSubstitution(t *testing.T) {
	s := newSealer(t)
	root := write(t, files{"s.yaml": s.seal("yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\nstringData:\n    p: ${v}\n")})
	got, err := build.Build(root, at(""), build.Options{Decrypter: s.decrypter(), Substitution: &build.Substitution{Variables: map[string]string{"v": "w"}}})
	if err != nil || !slices.Equal(contents(t, got), []string{"Secret/p=w"}) {
		t.Errorf("%v, %v", contents(t, got), err)
	}
}

// A build in another process gets what was decrypted, and no keys.
func TestIsolatedBuildOfEncryptedFiles(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(cm("remote"))) }))
	defer server.Close()
	s := newSealer(t)
	root := write(t, files{"kustomization.yaml": "resources: [" + server.URL + "/x.yaml]\nsecretGenerator:\n- {name: s, envs: [app.env]}\n", "app.env": s.seal("dotenv", "A=${v}\n")})
	i := isolation(t)
	got, err := build.Build(root, at(""), build.Options{Decrypter: s.decrypter(), Substitution: &build.Substitution{Variables: map[string]string{"v": "w"}},
		Remote: func(decrypted map[string][]byte) (build.Rendered, error) {
			return i.Render(t.Context(), root, at(""), build.Options{Decrypted: decrypted}, time.Minute)
		}})
	if err != nil || !slices.Equal(contents(t, got), []string{"ConfigMap/k=v", "Secret/A=${v}"}) {
		t.Errorf("%v, %v", contents(t, got), err)
	}
}
