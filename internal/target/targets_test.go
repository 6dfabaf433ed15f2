package target

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// server answers every request with NotFound and notes who asks.
func server(t *testing.T, note func(*http.Request)) *rest.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func newTargets(t *testing.T, config *rest.Config, account string) *Targets {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := apimeta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, apimeta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, apimeta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, apimeta.RESTScopeNamespace)
	targets, err := New(Options{Config: config, HTTPClient: http.DefaultClient, Mapper: mapper, Scheme: scheme, DefaultServiceAccount: account,
		Executor: func(c client.Client) *execute.Executor { return &execute.Executor{Client: c} }})
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

// P158, P159: each Kustomization has the client of its account, also when many ask at once, and no account that of another.
func TestAccounts(t *testing.T) {
	var mu sync.Mutex
	users := map[string]string{}
	config := server(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		users[r.URL.Path] = r.Header.Get("Impersonate-User")
	})
	for what, c := range map[string]struct{ account, standard, want string }{
		"its own":                {account: "a", want: "system:serviceaccount:shop:a"},
		"none":                   {want: ""},
		"the default":            {standard: "d", want: "system:serviceaccount:shop:d"},
		"its own, not a default": {account: "a", standard: "d", want: "system:serviceaccount:shop:a"},
	} {
		t.Run(what, func(t *testing.T) {
			targets := newTargets(t, config, c.standard)
			ks := &v1.Kustomization{}
			ks.Namespace, ks.Spec.ServiceAccountName = "shop", c.account
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					got, err := targets.Of(t.Context(), ks)
					if err != nil {
						t.Error(err)
						return
					}
					name := what[:3]
					obj := &metav1.PartialObjectMetadata{}
					obj.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
					_ = got.Executor.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name + "-write"}, obj)
					_ = got.Observer.Reader.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name + "-read"}, obj)
					_ = got.Users.Reader.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name + "-users"}, obj)
				})
			}
			group.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(users) != 3 {
				t.Fatalf("asked: %v", users)
			}
			for path, user := range users {
				want := c.want
				if path == "/api/v1/namespaces/shop/configmaps/"+what[:3]+"-users" {
					want = "" // the controller's own
				}
				if user != want {
					t.Errorf("%s was asked for as %q, want %q", path, user, want)
				}
			}
			clear(users)
		})
	}
	targets := newTargets(t, config, "")
	keys := map[string]bool{}
	for _, account := range []string{"a", "b"} {
		for _, namespace := range []string{"shop", "mall"} {
			ks := &v1.Kustomization{}
			ks.Namespace, ks.Spec.ServiceAccountName = namespace, account
			got, err := targets.Of(t.Context(), ks)
			if err != nil {
				t.Fatal(err)
			}
			keys[got.Key] = true
		}
	}
	if len(keys) != 4 {
		t.Errorf("four accounts have the keys %v", keys)
	}
	odd := &v1.Kustomization{}
	odd.Namespace, odd.Spec.ServiceAccountName = "shop", "../a"
	if _, err := targets.Of(t.Context(), odd); err == nil {
		t.Error("a path is accepted as a name")
	}
}

// Without its kubeconfig a Kustomization has no target: not the controller's own cluster either.
func TestNoKubeConfigNoTarget(t *testing.T) {
	targets := newTargets(t, server(t, func(*http.Request) {}), "")
	ks := &v1.Kustomization{}
	ks.Namespace = "shop"
	for what, kc := range map[string]*meta.KubeConfigReference{
		"no Secret": {SecretRef: &meta.SecretKeyReference{Name: "none"}}, "no reference": {},
	} {
		ks.Spec.KubeConfig = kc
		if got, err := targets.Of(t.Context(), ks); err == nil || got != nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A cluster that does not answer costs one worker one wait, however many Kustomizations work on it.
func TestSilentClusterIsAskedOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var asked atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			defer conn.Close()
		}
	}()
	config := &rest.Config{Host: "http://" + listener.Addr().String()}
	c, err := newCluster(config, &http.Client{}, apimeta.NewDefaultRESTMapper(nil), runtime.NewScheme())
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := c.answers(t.Context()); err == nil {
				t.Error("it answers")
			}
		})
	}
	group.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	c.probe.at = time.Now().Add(-probeAge)
	if _, known, fresh := c.probe.last(); !known || fresh {
		t.Error("an old answer counts for ever")
	}
}
