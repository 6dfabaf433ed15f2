package gitrepository

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// Keys of a Secret with credentials, as in Flux.
const (
	keyUsername    = "username"
	keyPassword    = "password"
	keyBearerToken = "bearerToken"
	keyCA          = "ca.crt"
	keyOldCA       = "caFile"
	keyClientCert  = "tls.crt"
	keyClientKey   = "tls.key"
	keyIdentity    = "identity"
	keyKnownHosts  = "known_hosts"
	keyAddress     = "address"
)

// remote reads the Secrets and checks URL and credentials.
func (r *reconciler) remote(ctx context.Context, repository *sourcev1.GitRepository) (*git.Remote, *failure) {
	var auth git.Auth
	var data map[string][]byte
	if ref := repository.Spec.SecretRef; ref != nil {
		var f *failure
		if data, f = r.secret(ctx, repository.Namespace, ref.Name, "spec.secretRef"); f != nil {
			return nil, f
		}
		var err error
		if auth, err = credentials(data); err != nil {
			return nil, badSecret(repository.Namespace, ref.Name, "spec.secretRef", err)
		}
	}
	if ref := repository.Spec.ProxySecretRef; ref != nil {
		data, f := r.secret(ctx, repository.Namespace, ref.Name, "spec.proxySecretRef")
		if f != nil {
			return nil, f
		}
		var err error
		if auth.Proxy, err = proxy(data); err != nil {
			return nil, badSecret(repository.Namespace, ref.Name, "spec.proxySecretRef", err)
		}
	}
	authenticate := r.asApp
	if ofCloud(repository.Spec) {
		authenticate = r.byIdentity
	}
	if f := authenticate(ctx, repository, data, &auth); f != nil {
		return nil, f
	}
	remote, err := git.NewRemote(repository.Spec.URL, auth, r.tempDir)
	if err != nil {
		return nil, gitFailed(err)
	}
	return remote, nil
}

// secret reads the data of a Secret that a field of the spec names.
func (r *reconciler) secret(ctx context.Context, namespace, name, field string) (map[string][]byte, *failure) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	var secret corev1.Secret
	if err := r.secrets.Get(ctx, key, &secret); err != nil {
		advice := "check that the controller may get Secrets"
		if apierrors.IsNotFound(err) {
			advice = "create it or change " + field
		}
		return nil, fetchFailed(sourcev1.AuthenticationFailedReason, fmt.Errorf("get Secret %s of %s: %w; %s", key, field, err, advice))
	}
	return secret.Data, nil
}

func badSecret(namespace, name, field string, err error) *failure {
	return fetchFailed(sourcev1.AuthenticationFailedReason, fmt.Errorf("read Secret %s/%s of %s: %w", namespace, name, field, err))
}

// credentials reads the data of a Secret. Which of it is used depends on the URL; a Secret without any of it makes the
// connection an anonymous one, as in Flux.
func credentials(data map[string][]byte) (git.Auth, error) {
	auth := git.Auth{
		Username:    string(data[keyUsername]),
		Password:    string(data[keyPassword]),
		BearerToken: string(data[keyBearerToken]),
		Identity:    data[keyIdentity],
		KnownHosts:  data[keyKnownHosts],
		TLS:         git.TLS{CA: data[keyCA], Cert: data[keyClientCert], Key: data[keyClientKey]},
	}
	if len(auth.TLS.CA) == 0 {
		auth.TLS.CA = data[keyOldCA]
	}
	if len(auth.TLS.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(auth.TLS.CA) {
		return git.Auth{}, fmt.Errorf("key %q: it holds no PEM certificate; put the certificate authority of the server there", keyCA)
	}
	return auth, nil
}

// proxy reads the data of a Secret with a proxy. Errors quote none of it: the address may hold a password.
func proxy(data map[string][]byte) (*url.URL, error) {
	address, err := url.Parse(string(data[keyAddress]))
	switch {
	case len(data[keyAddress]) == 0:
		return nil, fmt.Errorf("key %q is missing; put the address of the proxy there, such as https://proxy.example:3128", keyAddress)
	case err != nil, address.Hostname() == "":
		return nil, fmt.Errorf("key %q is no URL with a host; put the address of the proxy there, such as https://proxy.example:3128", keyAddress)
	}
	username, password := string(data[keyUsername]), string(data[keyPassword])
	switch {
	case username != "" && password != "":
		address.User = url.UserPassword(username, password)
	case username != "":
		address.User = url.User(username)
	case password != "":
		return nil, errors.New("it has a password and no username; add the other")
	}
	return address, nil
}
