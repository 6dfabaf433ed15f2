package gitrepository

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGitHubApp: the token of an app lets in, and what is missing for it is named.
func TestGitHubApp(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/app/installations/42/access_tokens" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token": "t0k3n", "expires_at": %q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
	}))
	defer hub.Close()
	app := map[string]string{"githubAppID": "7", "githubAppInstallationID": "42", "githubAppPrivateKey": string(text), "githubAppBaseURL": hub.URL}
	without := func(name string) map[string]string {
		some := map[string]string{"username": "x"}
		for k, v := range app {
			if k != name {
				some[k] = v
			}
		}
		return some
	}
	tests := map[string]struct {
		provider   string
		secret     map[string]string
		wantReason string
		says       string
	}{
		"all there":       {"github", app, "", ""},
		"not asked for":   {"", app, sourcev1.InvalidProviderConfigurationReason, "set it to github"},
		"no app":          {"github", without("githubAppID"), sourcev1.InvalidProviderConfigurationReason, "githubAppID"},
		"no installation": {"github", without("githubAppInstallationID"), sourcev1.InvalidProviderConfigurationReason, "githubAppInstallationOwner"},
		"no key":          {"github", without("githubAppPrivateKey"), sourcev1.AuthenticationFailedReason, "githubAppPrivateKey"},
		"nothing at all":  {"github", nil, sourcev1.InvalidProviderConfigurationReason, "name one in spec.secretRef"},
		"another installation": {"github", map[string]string{"githubAppID": "7", "githubAppInstallationID": "43", "githubAppPrivateKey": string(text), "githubAppBaseURL": hub.URL},
			sourcev1.AuthenticationFailedReason, "404"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.git.Username, b.git.Password = "x-access-token", "t0k3n"
			b.commit(map[string]string{"a.yaml": "1"}, "first")
			if tt.secret != nil {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "app"}, Data: map[string][]byte{}}
				for k, v := range tt.secret {
					secret.Data[k] = []byte(v)
				}
				if err := b.client.Create(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
			}
			b.create(func(o *sourcev1.GitRepository) {
				o.Spec.Provider = tt.provider
				if tt.secret != nil {
					o.Spec.SecretRef = &meta.LocalObjectReference{Name: "app"}
				}
			})
			if tt.wantReason == "" {
				b.settle()
				return
			}
			// What the attempt comes to is in the conditions; whether it is repeated is another test's.
			_, _ = b.reconcile()
			said := wantCondition(t, b.get(), sourcev1.FetchFailedCondition, metav1.ConditionTrue, tt.wantReason)
			if !strings.Contains(said, tt.says) || strings.Contains(said, "t0k3n") {
				t.Errorf("message %q, want %q and no secret", said, tt.says)
			}
		})
	}
}
