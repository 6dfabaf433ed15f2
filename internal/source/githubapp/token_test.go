package githubapp

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// gitHub stands in for GitHub's API: it knows one app, by its key, and its one installation.
type gitHub struct {
	t      *testing.T
	key    *rsa.PrivateKey
	tokens int
}

func (g *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.proved(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /api/v3/users/someone/installation":
		fmt.Fprint(w, `{"id": 42}`)
	case "POST /api/v3/app/installations/42/access_tokens":
		g.tokens++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token": "t0k3n-%d", "expires_at": %q}`, g.tokens, now.Add(time.Hour).Format(time.RFC3339))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// proved checks a claim as GitHub does.
func (g *gitHub) proved(claim string) bool {
	parts := strings.Split(claim, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(&g.key.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return false
	}
	said, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var c struct {
		Iat, Exp int64
		Iss      string
	}
	if err := json.Unmarshal(said, &c); err != nil {
		g.t.Errorf("claim %s: %v", said, err)
	}
	return c.Iss == "7" && c.Exp-c.Iat <= 600 && c.Iat <= now.Unix() && now.Unix() < c.Exp
}

func newKey(t *testing.T) (*rsa.PrivateKey, []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func TestToken(t *testing.T) {
	key, text := newKey(t)
	_, other := newKey(t)
	hub := &gitHub{t: t, key: key}
	server := httptest.NewServer(hub)
	defer server.Close()
	base := server.URL + "/api/v3"
	tests := map[string]struct {
		app     App
		wantErr string
	}{
		"by installation":        {App{ID: "7", Installation: "42", PrivateKey: text, BaseURL: base + "/"}, ""},
		"by owner":               {App{ID: "7", Owner: "someone", PrivateKey: text, BaseURL: base}, ""},
		"another key":            {App{ID: "7", Installation: "42", PrivateKey: other, BaseURL: base}, "401"},
		"another app":            {App{ID: "8", Installation: "42", PrivateKey: text, BaseURL: base}, "401"},
		"no such installation":   {App{ID: "7", Installation: "43", PrivateKey: text, BaseURL: base}, "404"},
		"no such owner":          {App{ID: "7", Owner: "nobody", PrivateKey: text, BaseURL: base}, "404"},
		"not a key":              {App{ID: "7", Installation: "42", PrivateKey: []byte("s3cr3t"), BaseURL: base}, "no PEM"},
		"not a URL":              {App{ID: "7", Installation: "42", PrivateKey: text, BaseURL: "s3cr3t"}, "githubAppBaseURL"},
		"nobody at home":         {App{ID: "7", Installation: "42", PrivateKey: text, BaseURL: "http://user:s3cr3t@127.0.0.1:1"}, "refused"},
		"a server of other kind": {App{ID: "7", Installation: "42", PrivateKey: text, BaseURL: server.URL}, "404"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			source := &Source{Now: func() time.Time { return now }}
			got, err := source.Token(t.Context(), server.Client(), tt.app)
			if tt.wantErr == "" {
				if err != nil || !strings.HasPrefix(got, "t0k3n-") {
					t.Errorf("token %q, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the message holds a secret: %v", err)
			}
		})
	}
}

// TestTokenIsUsedAgain while it is good for long enough.
func TestTokenIsUsedAgain(t *testing.T) {
	key, text := newKey(t)
	hub := &gitHub{t: t, key: key}
	server := httptest.NewServer(hub)
	defer server.Close()
	clock := now
	source := &Source{Now: func() time.Time { return clock }}
	get := func() {
		t.Helper()
		if _, err := source.Token(t.Context(), server.Client(), App{ID: "7", Installation: "42", PrivateKey: text, BaseURL: server.URL + "/api/v3"}); err != nil {
			t.Fatal(err)
		}
	}
	get()
	get()
	if hub.tokens != 1 {
		t.Errorf("%d tokens, want one", hub.tokens)
	}
	source.tokens = map[string]token{}
	get()
	if hub.tokens != 2 {
		t.Errorf("%d tokens, want a second one", hub.tokens)
	}
	for id, kept := range source.tokens {
		kept.expires = now.Add(leftover)
		source.tokens[id] = kept
	}
	get()
	if hub.tokens != 3 {
		t.Errorf("%d tokens, want a third one: the second ends too soon", hub.tokens)
	}
}
