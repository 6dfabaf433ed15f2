package inquiry

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Where what stands in for the source begins, and where the Kustomization is in it.
func TestLocalPlace(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"clone/.git", "clone/apps/shop", "plain/apps/shop"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]struct{ spec, root, path string }{
		"clone/apps/shop": {"./elsewhere", "clone", "./apps/shop"},
		"clone":           {"./apps/shop", "clone", "./."},
		"plain/apps/shop": {"./apps/shop", "plain", "./apps/shop"},
		"plain/apps":      {"./apps/shop", "plain/apps", "./"},
	} {
		root, path, err := localPlace(filepath.Join(top, dir), want.spec)
		if err != nil || root != filepath.Join(top, want.root) || path != want.path {
			t.Errorf("%s: %s and %s (%v), want %s and %s", dir, root, path, err, want.root, want.path)
		}
	}
	if _, _, err := localPlace(filepath.Join(top, "none"), ""); err == nil {
		t.Error("a directory that is not there is taken")
	}
}

// A file may hold more than the Kustomization, but not leave open which one is meant.
func TestReadKustomization(t *testing.T) {
	const one = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: NAME}\n---\n"
	const other = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n---\n"
	both := strings.Replace(one, "NAME", "a", 1) + other + strings.Replace(one, "NAME", "b", 1)
	for _, tt := range []struct{ content, name, want, problem string }{
		{both, "b", "b", ""}, {both, "", "", "holds 2 Kustomizations"}, {both, "c", "", "holds no Kustomization c"}, {other, "", "", "holds no Kustomization"},
		{other + strings.Replace(one, "NAME", "a", 1), "", "a", ""},
	} {
		file := filepath.Join(t.TempDir(), "ks.yaml")
		if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		ks, err := readKustomization(file, tt.name)
		if tt.problem == "" && (err != nil || ks.Name != tt.want) || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%q of %q: %v (%v)", tt.name, tt.content, ks, err)
		}
	}
}

// An artifact whose host is a Service comes through the API server, with the caller's credentials; those go nowhere else.
func TestArtifactsComeThroughTheAPIServer(t *testing.T) {
	var asked []string
	note := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked = append(asked, name+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		}))
		t.Cleanup(s.Close)
		return s
	}
	api, elsewhere := note("api"), note("elsewhere")
	transport := proxied{config: &rest.Config{Host: api.URL, BearerToken: "t"}}
	for _, url := range []string{"http://source-controller.flux-system.svc.cluster.local./gitrepository/a/b.tar.gz", "http://holdfast.flux-system.svc:8080/x", elsewhere.URL + "/y"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	want := []string{"api /api/v1/namespaces/flux-system/services/source-controller:80/proxy/gitrepository/a/b.tar.gz Bearer t",
		"api /api/v1/namespaces/flux-system/services/holdfast:8080/proxy/x Bearer t", "elsewhere /y "}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked:\n%s\nwant:\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}
