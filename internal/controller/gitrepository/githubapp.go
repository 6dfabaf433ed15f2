package gitrepository

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
	"github.com/holdfast-gitops/holdfast/internal/source/githubapp"
)

// Keys of a Secret with a GitHub App, as in Flux.
const (
	keyAppID           = "githubAppID"
	keyAppInstallation = "githubAppInstallationID"
	keyAppOwner        = "githubAppInstallationOwner"
	keyAppPrivateKey   = "githubAppPrivateKey"
	keyAppBaseURL      = "githubAppBaseURL"
)

// asApp turns the GitHub App in a Secret into a username and a password, where the spec asks for it.
func (r *reconciler) asApp(ctx context.Context, repository *sourcev1.GitRepository, data map[string][]byte, auth *git.Auth) *failure {
	spec := repository.Spec
	hasApp := len(data[keyAppID]) > 0
	switch wanted := spec.Provider == sourcev1.GitProviderGitHub; {
	case !wanted && !hasApp:
		return nil
	case !wanted:
		return fetchFailed(sourcev1.InvalidProviderConfigurationReason,
			errors.New("the Secret of spec.secretRef holds a GitHub App, which spec.provider does not ask for; set it to github"))
	case spec.SecretRef == nil:
		f := fetchFailed(sourcev1.InvalidProviderConfigurationReason, errors.New("spec.provider is github, and no Secret holds the GitHub App; name one in spec.secretRef"))
		f.final = true
		return f
	case !hasApp:
		return fetchFailed(sourcev1.InvalidProviderConfigurationReason,
			fmt.Errorf("the Secret of spec.secretRef has no %q; put the GitHub App there that spec.provider asks for", keyAppID))
	case len(data[keyAppInstallation]) == 0 && len(data[keyAppOwner]) == 0:
		return fetchFailed(sourcev1.InvalidProviderConfigurationReason,
			fmt.Errorf("the Secret of spec.secretRef has neither %q nor %q; add one of them", keyAppInstallation, keyAppOwner))
	}
	token, err := r.apps.Token(ctx, clientFor(*auth), githubapp.App{
		ID: string(data[keyAppID]), Installation: string(data[keyAppInstallation]), Owner: string(data[keyAppOwner]),
		PrivateKey: data[keyAppPrivateKey], BaseURL: string(data[keyAppBaseURL]),
	})
	if err != nil {
		return fetchFailed(sourcev1.AuthenticationFailedReason, fmt.Errorf("authenticate as a GitHub App: %w", err))
	}
	auth.Username, auth.Password, auth.BearerToken = githubapp.Username, token, ""
	return nil
}

// clientFor reaches the API in the same way as the repository.
func clientFor(auth git.Auth) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own
	transport.DisableKeepAlives = true                           // one request an hour
	if auth.Proxy != nil {
		transport.Proxy = http.ProxyURL(auth.Proxy)
	}
	if len(auth.TLS.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // without the system's authorities the one of the Secret still counts
		}
		pool.AppendCertsFromPEM(auth.TLS.CA)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport}
}
