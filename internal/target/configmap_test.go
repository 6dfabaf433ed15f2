package target

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/cache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// issuing is an API server that answers with a ConfigMap and with tokens of accounts, which last as long as life says.
type issuing struct {
	mu     sync.Mutex
	data   map[string]string
	life   time.Duration
	issued int
}

func (i *issuing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/configmaps/far"):
		answer = corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: i.data}
	case strings.HasSuffix(path, "/token"):
		i.issued++
		claims, _ := json.Marshal(map[string]any{"exp": time.Now().Add(i.life).Unix(), "jti": i.issued})
		encode := base64.RawURLEncoding.EncodeToString
		answer = map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
			"status": map[string]any{"token": encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + "."}}
	case strings.Contains(path, "/serviceaccounts/"):
		answer = corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: path[strings.LastIndex(path, "/")+1:]}}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// far is an API server that notes which tokens it is shown, and sends those that ask for a Secret elsewhere.
type far struct {
	*httptest.Server
	mu     sync.Mutex
	tokens map[string]int
	// refused are tokens that are not accepted any more.
	refused map[string]bool
}

func newFar(t *testing.T, elsewhere string) *far {
	t.Helper()
	f := &far{tokens: map[string]int{}}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		f.mu.Lock()
		f.tokens[token]++
		refused := f.refused[token]
		f.mu.Unlock()
		if refused {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		if elsewhere != "" && strings.Contains(r.URL.Path, "/secrets/") {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *far) seen() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.tokens
	f.tokens = map[string]int{}
	return seen
}

func (f *far) data() map[string]string {
	return map[string]string{"provider": "generic", "address": f.URL, "serviceAccountName": "a",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}))}
}

// byConfigMap are targets with identities, and a Kustomization whose cluster is in a ConfigMap.
func byConfigMap(t *testing.T, api *issuing) (*Targets, *v1.Kustomization) {
	t.Helper()
	near := httptest.NewServer(api)
	t.Cleanup(near.Close)
	config := server(t, func(*http.Request) {})
	config.Host = near.URL
	targets := newTargets(t, config, "")
	mapper := targets.own.mapper
	c, err := client.New(config, client.Options{Scheme: targets.options.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	targets.options.Identity = identity.New(identity.Options{Client: c, ObjectLevel: true})
	ks := &v1.Kustomization{}
	ks.Namespace, ks.Name = "shop", "app"
	ks.Spec.KubeConfig = &meta.KubeConfigReference{ConfigMapRef: &meta.LocalObjectReference{Name: "far"}}
	return targets, ks
}

// read makes one request.
func read(t *testing.T, target *Target) {
	t.Helper()
	_ = target.Users.Discovery.RESTClient().Get().AbsPath("/api/v1/namespaces/shop/secrets/x").Do(t.Context()).Error()
}

// P163: a token is used for as long as it is good, and renewed in the middle of a pass.
func TestTokensAreRenewed(t *testing.T) {
	for what, c := range map[string]struct {
		life time.Duration
		want int
	}{"a long life": {time.Hour, 1}, "a life that is over": {0, 3}} {
		t.Run(what, func(t *testing.T) {
			server := newFar(t, "")
			api := &issuing{data: server.data(), life: c.life}
			targets, ks := byConfigMap(t, api)
			got, err := targets.Of(t.Context(), ks)
			if err != nil {
				t.Fatal(err)
			}
			server.seen()
			for range 3 {
				read(t, got)
			}
			if seen := server.seen(); len(seen) != c.want || seen[""] > 0 {
				t.Errorf("shown %v, want %d tokens", seen, c.want)
			}
		})
	}
}

// P163: a token of an account that was deleted and made again is not accepted any more. It is asked for anew, though it is kept.
func TestTokensThatAreNotAcceptedAreAskedForAnew(t *testing.T) {
	server := newFar(t, "")
	api := &issuing{data: server.data(), life: time.Hour}
	targets, ks := byConfigMap(t, api)
	tokens, err := cache.NewTokenCache(3)
	if err != nil {
		t.Fatal(err)
	}
	targets.options.Identity = identity.New(identity.Options{Client: targets.own.client, ObjectLevel: true, Tokens: tokens})
	got, err := targets.Of(t.Context(), ks)
	if err != nil {
		t.Fatal(err)
	}
	server.mu.Lock()
	server.refused = map[string]bool{}
	for token := range server.tokens {
		server.refused[token] = true
	}
	server.mu.Unlock()
	read(t, got)
	for range 2 { // asking the cache again does not bring the old one back
		if got, err = targets.Of(t.Context(), ks); err != nil {
			t.Fatal(err)
		}
		server.seen()
		read(t, got)
		for token := range server.seen() {
			if token == "" || server.refused[token] {
				t.Error("the token that is not accepted is shown again")
			}
		}
	}
	if api.issued != 2 {
		t.Errorf("%d tokens, want 2", api.issued)
	}
}

// P163: the clients of a cluster are kept for one account and one description of it, and asking again takes a new token over.
func TestClustersOfConfigMaps(t *testing.T) {
	server := newFar(t, "")
	api := &issuing{data: server.data(), life: time.Hour}
	targets, ks := byConfigMap(t, api)
	keys := map[string]bool{}
	of := func() *Target {
		t.Helper()
		got, err := targets.Of(t.Context(), ks)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Remote {
			t.Error("it is the controller's own cluster")
		}
		keys[got.Key] = true
		return got
	}
	if first := of(); first != of() || api.issued != 2 {
		t.Errorf("made anew; %d tokens", api.issued)
	}
	for _, change := range []func(){
		func() { api.data["serviceAccountName"] = "b" }, func() { ks.Namespace = "mall" }, func() { api.data["audiences"] = "x" },
		func() { ks.Spec.ServiceAccountName = "tenant" },
	} {
		api.mu.Lock()
		change()
		api.mu.Unlock()
		of()
	}
	if len(keys) != 5 {
		t.Errorf("five descriptions have the keys %v", keys)
	}
}

// A server that sends a request elsewhere does not send the token with it.
func TestTokensAreNotRedirected(t *testing.T) {
	var mu sync.Mutex
	followed, shown := 0, ""
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		followed++
		shown += r.Header.Get("Authorization")
		http.NotFound(w, r)
	}))
	t.Cleanup(other.Close)
	server := newFar(t, other.URL)
	targets, ks := byConfigMap(t, &issuing{data: server.data(), life: time.Hour})
	got, err := targets.Of(t.Context(), ks)
	if err != nil {
		t.Fatal(err)
	}
	read(t, got)
	mu.Lock()
	defer mu.Unlock()
	if followed == 0 || shown != "" {
		t.Errorf("followed %d times, with %q", followed, shown)
	}
}

// Without access a Kustomization has no target: not the controller's own cluster either, nor another identity.
func TestNoAccessNoTarget(t *testing.T) {
	server := newFar(t, "")
	for what, change := range map[string]func(*issuing, *Targets, *v1.Kustomization){
		"no ConfigMap":                 func(_ *issuing, _ *Targets, ks *v1.Kustomization) { ks.Spec.KubeConfig.ConfigMapRef.Name = "none" },
		"no provider":                  func(i *issuing, _ *Targets, _ *v1.Kustomization) { delete(i.data, "provider") },
		"the controller, outside pods": func(i *issuing, _ *Targets, _ *v1.Kustomization) { delete(i.data, "serviceAccountName") },
		"the gate is off": func(_ *issuing, t *Targets, _ *v1.Kustomization) {
			t.options.Identity = identity.New(identity.Options{Client: t.own.client})
		},
		"no authority": func(i *issuing, _ *Targets, _ *v1.Kustomization) { delete(i.data, "ca.crt") },
	} {
		api := &issuing{data: server.data(), life: time.Hour}
		targets, ks := byConfigMap(t, api)
		change(api, targets, ks)
		if got, err := targets.Of(t.Context(), ks); err == nil || got != nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// P192: the account of the flag is used where the ConfigMap names none.
func TestDefaultKubeConfigAccount(t *testing.T) {
	ks := &v1.Kustomization{}
	ks.Namespace, ks.Name = "shop", "app"
	targets := &Targets{options: Options{DefaultKubeConfigAccount: "d"}}
	if a := targets.asker(ks, ""); a.Account.String() != "shop/d" || a.DefaultedBy != "default-kubeconfig-service-account" {
		t.Errorf("%+v", a)
	}
	if a := targets.asker(ks, "own"); a.Account.String() != "shop/own" || a.DefaultedBy != "" {
		t.Errorf("%+v", a)
	}
	targets.options.DefaultKubeConfigAccount = ""
	if a := targets.asker(ks, ""); a.Account.Name != "" {
		t.Errorf("%+v", a)
	}
}
