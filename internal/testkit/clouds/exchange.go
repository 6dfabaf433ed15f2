package clouds

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Region is the one of AWS that there is.
const Region = "eu-west-2"

// Hosts that exchange tokens.
const (
	AzureLogin = "login.microsoftonline.com"
	AWSTokens  = "sts." + Region + ".amazonaws.com"
	GCPTokens  = "sts.googleapis.com"
	gcpIAM     = "iamcredentials.googleapis.com"
)

// Grant is what somebody was given.
type Grant struct {
	// Subject is whose token was shown for it; empty for a password of the process.
	Subject string
	// Identity is who one is with it: a client, a role, or an account of the cloud.
	Identity string
	// Scope is what it is for, where that is part of it.
	Scope string
	// Token is the credential; for AWS the id of the key, with a Secret and a Session.
	Token, Secret, Session string
}

// Grants are all that was given so far.
func (c *Clouds) Grants() []Grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.grants)
}

// Whose returns what a credential was given for.
func (c *Clouds) Whose(token string) (Grant, bool) {
	for _, g := range c.Grants() {
		if g.Token == token && token != "" {
			return g, true
		}
	}
	return Grant{}, false
}

func (c *Clouds) grant(g Grant) Grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.Token == "" {
		g.Token = "granted-" + rand.Text()
	}
	c.grants = append(c.grants, g)
	return g
}

func (c *Clouds) exchanges() {
	c.hosts[AzureLogin] = http.HandlerFunc(c.azure)
	c.hosts[AWSTokens] = http.HandlerFunc(c.aws)
	c.hosts[GCPTokens] = http.HandlerFunc(c.gcp)
	c.hosts[gcpIAM] = http.HandlerFunc(c.gcpAccount)
}

// subject is whose token it is, if it is for the audience.
func subject(token, audience string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("that is no token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", err
	}
	var claims struct {
		Subject   string   `json:"sub"`
		Audiences []string `json:"aud"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "", err
	}
	if !slices.Equal(claims.Audiences, []string{audience}) {
		return "", fmt.Errorf("the token is for %q, and not for %q", claims.Audiences, audience)
	}
	return claims.Subject, nil
}

func answer(w http.ResponseWriter, content any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(content)
}

// refuse answers with an error in a form that all of the clients show.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": "invalid_client", "error_description": err.Error()})
}

// AzurePassword is the secret of every client of Azure.
const AzurePassword = "password of the process"

func (c *Clouds) azure(w http.ResponseWriter, r *http.Request) {
	root := "https://" + AzureLogin + "/"
	tenant, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch rest {
	case "discovery/instance":
		answer(w, map[string]any{"api-version": "1.1", "tenant_discovery_endpoint": root + "tenant/v2.0/.well-known/openid-configuration",
			"metadata": []any{map[string]any{"preferred_network": AzureLogin, "preferred_cache": AzureLogin, "aliases": []string{AzureLogin}}}})
	case "v2.0/.well-known/openid-configuration":
		answer(w, map[string]any{"issuer": root + tenant + "/v2.0", "authorization_endpoint": root + tenant + "/oauth2/v2.0/authorize",
			"token_endpoint": root + tenant + "/oauth2/v2.0/token"})
	case "oauth2/v2.0/token":
		g := Grant{Identity: tenant + "/" + r.PostFormValue("client_id"), Scope: r.PostFormValue("scope")}
		if r.PostFormValue("client_secret") != AzurePassword {
			var err error
			if g.Subject, err = subject(r.PostFormValue("client_assertion"), "api://AzureADTokenExchange"); err != nil {
				refuse(w, err)
				return
			}
		}
		answer(w, map[string]any{"token_type": "Bearer", "expires_in": 3600, "access_token": c.grant(g).Token})
	default:
		http.NotFound(w, r)
	}
}

func (c *Clouds) aws(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("Action") != "AssumeRoleWithWebIdentity" {
		http.NotFound(w, r)
		return
	}
	who, err := subject(r.PostFormValue("WebIdentityToken"), "sts.amazonaws.com")
	if err != nil {
		refuse(w, err)
		return
	}
	g := c.grant(Grant{Subject: who, Identity: r.PostFormValue("RoleArn"), Token: "ASIA" + rand.Text(), Secret: rand.Text(), Session: rand.Text()})
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>`+
		`<AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration>`+
		`</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
		g.Token, g.Secret, g.Session, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

// AWSKey is a key of the process itself, which the services know.
func (c *Clouds) AWSKey() Grant {
	return c.grant(Grant{Identity: "the process", Token: "AKIA" + rand.Text(), Secret: rand.Text(), Session: rand.Text()})
}

func (c *Clouds) gcp(w http.ResponseWriter, r *http.Request) {
	who, err := subject(r.PostFormValue("subject_token"), r.PostFormValue("audience"))
	if err != nil {
		refuse(w, err)
		return
	}
	g := c.grant(Grant{Subject: who, Identity: r.PostFormValue("audience"), Scope: r.PostFormValue("scope")})
	answer(w, map[string]any{"access_token": g.Token, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer", "expires_in": 3600})
}

// gcpAccount gives a token of an account of the cloud to whoever has one of a workload.
func (c *Clouds) gcpAccount(w http.ResponseWriter, r *http.Request) {
	email, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/projects/-/serviceAccounts/"), ":generateAccessToken")
	from, known := c.Whose(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if !ok || !known {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	g := c.grant(Grant{Subject: from.Subject, Identity: email})
	answer(w, map[string]any{"accessToken": g.Token, "expireTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
}
