package integration

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// counter counts the requests that go through it to the API server, in a few words each. Events don't count: when and how they are put
// together is up to their recorder.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

// newCounter returns a counter and a kubeconfig that leads through it, with an administrator's rights.
func newCounter(t *testing.T) (*counter, string) {
	t.Helper()
	transport, err := rest.TransportFor(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(env.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{n: map[string]int{}}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.note(r)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections() // watches don't end by themselves
		server.Close()
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return c, path
}

func (c *counter) note(r *http.Request) {
	_, path, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
	parts, query := strings.Split(path, "/"), r.URL.Query() // the namespace, the resource, a name, a subresource
	if !namespaced || len(parts) < 2 || parts[1] == "events" || query.Get("watch") != "" {
		return
	}
	what := r.Method + " " + parts[1]
	if len(parts) > 3 {
		what += "/" + parts[3]
	}
	if query.Get("dryRun") != "" {
		what += " (dry-run)"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
}

// take returns what was counted since the last time.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = map[string]int{}
	return n
}

// A resync on request of what is as it should be reads each object once, and writes the status once. Nothing has a dry-run.
func TestResyncSendsFewRequests(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	c, kubeconfig := newCounter(t)
	startProcess(t, s.namespace, kubeconfig, "--controllers=kustomization")
	startProcess(t, s.namespace, env.Kubeconfig, "--controllers=source")
	r1 := s.push(map[string]string{
		"kustomization.yaml": generated("1", []string{"app"}, "a.yaml", "account.yaml", "service.yaml"),
		"a.yaml":             configMap("a", "1"),
		"account.yaml":       "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: account}\n",
		"service.yaml":       "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n",
	})
	s.follow()
	s.deploy("web", every(time.Hour), func(ks *v1.Kustomization) { ks.Spec.Wait = false })
	s.awaitReady("web", r1)
	eventually(t, within, "a resync sends no dry-run", func(context.Context) error {
		c.take()
		s.request("web")
		if n := c.take(); n["PATCH configmaps (dry-run)"]+n["PATCH serviceaccounts (dry-run)"]+n["PATCH services (dry-run)"] > 0 {
			return fmt.Errorf("it sent %v", n)
		}
		return nil
	})
	s.request("web")
	want := map[string]int{
		"GET kustomizations":          1,
		"GET gitrepositories":         1,
		"GET configmaps":              2,
		"GET serviceaccounts":         1,
		"GET services":                1,
		"PATCH kustomizations/status": 1,
	}
	if got := c.take(); !maps.Equal(got, want) {
		t.Errorf("it sent %v, want %v", got, want)
	}
}
