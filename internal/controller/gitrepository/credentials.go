package gitrepository

import (
	"context"
	"crypto/x509"
	"fmt"

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
)

// remote reads the Secret and checks URL and credentials.
func (r *reconciler) remote(ctx context.Context, repository *sourcev1.GitRepository) (*git.Remote, *failure) {
	var auth git.Auth
	var ca []byte
	if ref := repository.Spec.SecretRef; ref != nil {
		key := types.NamespacedName{Namespace: repository.Namespace, Name: ref.Name}
		var secret corev1.Secret
		if err := r.secrets.Get(ctx, key, &secret); err != nil {
			return nil, noSecret(key, err)
		}
		var err error
		if auth, ca, err = credentials(secret.Data); err != nil {
			return nil, fetchFailed(sourcev1.AuthenticationFailedReason, fmt.Errorf("read Secret %s of spec.secretRef: %w", key, err))
		}
	}
	remote, err := git.NewRemote(repository.Spec.URL, auth, ca)
	if err != nil {
		return nil, gitFailed(err)
	}
	return remote, nil
}

func noSecret(key types.NamespacedName, err error) *failure {
	advice := "check that the controller may get Secrets"
	if apierrors.IsNotFound(err) {
		advice = "create it or change spec.secretRef"
	}
	return fetchFailed(sourcev1.AuthenticationFailedReason, fmt.Errorf("get Secret %s of spec.secretRef: %w; %s", key, err, advice))
}

// credentials reads the data of a Secret. What can't be honoured is an error, because leaving it out would end in a
// refusal by the server that nobody could explain.
func credentials(data map[string][]byte) (auth git.Auth, ca []byte, err error) {
	for _, key := range []string{keyClientCert, keyClientKey} {
		if len(data[key]) > 0 {
			return git.Auth{}, nil, fmt.Errorf("key %q: client certificates are %w; use username and password or bearerToken", key, errNotSupported)
		}
	}
	auth = git.Auth{
		Username:    string(data[keyUsername]),
		Password:    string(data[keyPassword]),
		BearerToken: string(data[keyBearerToken]),
	}
	if ca = data[keyCA]; len(ca) == 0 {
		ca = data[keyOldCA]
	}
	if len(ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return git.Auth{}, nil, fmt.Errorf("key %q: it holds no PEM certificate; put the certificate authority of the server there", keyCA)
	}
	halfBasic := (auth.Username == "") != (auth.Password == "")
	switch {
	case auth.BearerToken == "" && halfBasic:
		return git.Auth{}, nil, fmt.Errorf("it has only one of %q and %q; add the other", keyUsername, keyPassword)
	case auth == (git.Auth{}) && len(ca) == 0:
		return git.Auth{}, nil, fmt.Errorf("it has none of %q with %q, %q and %q; add what the server needs",
			keyUsername, keyPassword, keyBearerToken, keyCA)
	}
	return auth, ca, nil
}
