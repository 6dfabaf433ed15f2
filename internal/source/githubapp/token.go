// Package githubapp gets tokens for Git from GitHub, in the name of an app that is installed there.
//
// An app proves itself with a claim that its private key signed, and gets a token for one installation, which is good for an
// hour. The whole of it is one request with a signature of the standard library, so that there is no client library.
package githubapp

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Username goes with a token where Git wants a username and a password.
const Username = "x-access-token"

const (
	defaultBase = "https://api.github.com"
	// The clocks of others may be behind, and a claim may not be good for more than ten minutes.
	claimSkew, claimAge = time.Minute, 9 * time.Minute
	// leftover is how long a token must be good for to be used again.
	leftover = 5 * time.Minute
	maxBody  = 1 << 20
)

// App is an app and its installation.
type App struct {
	ID string
	// Installation is its number. It is looked for by Owner, a user or an organization, when empty.
	Installation, Owner string
	// PrivateKey is PEM.
	PrivateKey []byte
	// BaseURL is that of the API; GitHub's own when empty.
	BaseURL string
}

// Source gets tokens, and keeps them while they are good. It may be used by several goroutines.
type Source struct {
	// Now is the clock.
	Now func() time.Time

	mu     sync.Mutex
	tokens map[string]token
}

type token struct {
	value   string
	expires time.Time
}

// Token returns a token for an app. Errors quote neither key nor token.
func (s *Source) Token(ctx context.Context, client *http.Client, app App) (string, error) {
	key, err := parseKey(app.PrivateKey)
	if err != nil {
		return "", err
	}
	base, err := baseURL(app.BaseURL)
	if err != nil {
		return "", err
	}
	id := app.digest()
	if kept, ok := s.kept(id); ok {
		return kept, nil
	}
	claim, err := s.claim(app.ID, key)
	if err != nil {
		return "", err
	}
	c := caller{client: client, base: base, claim: claim}
	installation := app.Installation
	if installation == "" {
		if installation, err = c.find(ctx, app.Owner); err != nil {
			return "", err
		}
	}
	fresh, err := c.token(ctx, installation)
	if err != nil {
		return "", err
	}
	s.keep(id, fresh)
	return fresh.value, nil
}

// digest names an app in memory, without its key.
func (a App) digest() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{a.ID, a.Installation, a.Owner, a.BaseURL, string(a.PrivateKey)}, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (s *Source) kept(id string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	return t.value, ok && s.Now().Add(leftover).Before(t.expires)
}

// keep also forgets the tokens that are not good any more.
func (s *Source) keep(id string, fresh token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = map[string]token{}
	}
	for other, t := range s.tokens {
		if !s.Now().Before(t.expires) {
			delete(s.tokens, other)
		}
	}
	s.tokens[id] = fresh
}

func parseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("githubAppPrivateKey holds no PEM; put the private key of the app there, as GitHub gave it out")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := parsed.(*rsa.PrivateKey); err == nil && ok {
		return key, nil
	}
	return nil, errors.New("githubAppPrivateKey is no RSA key; put the private key of the app there, as GitHub gave it out")
}

func baseURL(raw string) (string, error) {
	if raw == "" {
		return defaultBase, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("githubAppBaseURL is no http or https URL; set it to one such as https://github.example/api/v3, or leave it out")
	}
	return strings.TrimSuffix(raw, "/"), nil
}

// claim is what the app says of itself, signed: a JSON Web Token.
func (s *Source) claim(app string, key *rsa.PrivateKey) (string, error) {
	now := s.Now()
	said, err := json.Marshal(map[string]any{"iat": now.Add(-claimSkew).Unix(), "exp": now.Add(claimAge).Unix(), "iss": app})
	if err != nil {
		return "", fmt.Errorf("write the claim of the app: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(said)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errors.New("githubAppPrivateKey can't sign; put another private key of the app there")
	}
	return text + "." + encode(signature), nil
}

// caller calls the API in the name of an app.
type caller struct {
	client      *http.Client
	base, claim string
}

// find returns the installation of the app for an owner, who may be an organization or a user.
func (c caller) find(ctx context.Context, owner string) (string, error) {
	var found struct {
		ID json.Number `json:"id"`
	}
	doing := fmt.Sprintf("find the installation of the app for %s", owner)
	code, err := c.call(ctx, http.MethodGet, "/orgs/"+url.PathEscape(owner)+"/installation", doing, &found)
	if err == nil && code == http.StatusNotFound {
		code, err = c.call(ctx, http.MethodGet, "/users/"+url.PathEscape(owner)+"/installation", doing, &found)
	}
	if err == nil && code != http.StatusOK {
		err = refused(doing, code)
	}
	return found.ID.String(), err
}

func (c caller) token(ctx context.Context, installation string) (token, error) {
	var made struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	const doing = "get a token for the installation of the app"
	code, err := c.call(ctx, http.MethodPost, "/app/installations/"+url.PathEscape(installation)+"/access_tokens", doing, &made)
	switch {
	case err != nil:
		return token{}, err
	case code != http.StatusCreated || made.Token == "":
		return token{}, refused(doing, code)
	}
	return token{value: made.Token, expires: made.Expires}, nil
}

func refused(doing string, code int) error {
	return fmt.Errorf("%s: GitHub answered %d %s; check githubAppID, githubAppInstallationID or githubAppInstallationOwner, and githubAppPrivateKey", doing, code, http.StatusText(code))
}

// call reads the answer, if it is a good one, and returns its status.
func (c caller) call(ctx context.Context, method, path, doing string, into any) (int, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(nil))
	if err != nil {
		return 0, fmt.Errorf("%s: the URL can't be used", doing)
	}
	request.Header.Set("Authorization", "Bearer "+c.claim)
	request.Header.Set("Accept", "application/vnd.github+json")
	response, err := c.client.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the URL may hold a password
		}
		return 0, fmt.Errorf("%s: %w; it is tried again", doing, err)
	}
	defer response.Body.Close() // what was read of it is all that is needed
	if response.StatusCode >= http.StatusMultipleChoices {
		return response.StatusCode, nil
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(into); err != nil {
		return 0, fmt.Errorf("%s: the answer can't be read; check githubAppBaseURL", doing)
	}
	return response.StatusCode, nil
}
