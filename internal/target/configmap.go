package target

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// byIdentity returns the cluster that a ConfigMap describes. The identity is asked for access anew each time, so that an account
// that is gone or was forbidden ends it; the clients are kept.
func (t *Targets) byIdentity(ctx context.Context, ks *v1.Kustomization) (*cluster, error) {
	name := client.ObjectKey{Namespace: ks.Namespace, Name: ks.Spec.KubeConfig.ConfigMapRef.Name}
	data := &corev1.ConfigMap{}
	if err := t.own.client.Get(ctx, name, data); err != nil {
		return nil, fmt.Errorf("read ConfigMap/%s of spec.kubeConfig: %w", name, err)
	}
	described, err := identity.ParseCluster(data.Data)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap/%s of spec.kubeConfig: %w", name, err) //nolint:staticcheck // a kind
	}
	s := &session{issuer: t.options.Identity, asker: t.asker(ks, described.Account), cluster: described}
	access, err := s.issuer.Cluster(ctx, s.asker, described)
	if err != nil {
		return nil, fmt.Errorf("get access by ConfigMap/%s of spec.kubeConfig: %w", name, err)
	}
	key, err := keyOf(s.asker.Account, described, access)
	if err != nil {
		return nil, err
	}
	if kept, ok := t.clusters.Get(key); ok {
		c := kept.(*cluster) //nolint:forcetypeassert // nothing else is put in
		c.session.take(access)
		return c, c.answers(ctx)
	}
	s.take(access)
	config := &rest.Config{Host: access.Host, TLSClientConfig: rest.TLSClientConfig{CAData: access.CA}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{session: s, next: next} })
	c, err := newRemote(key, config, t.options)
	if err != nil {
		return nil, err
	}
	c.session = s
	t.clusters.Add(key, c)
	return c, c.answers(ctx)
}

// asker is who asks for access: the account that the ConfigMap names, or that of the flag, or the controller.
func (t *Targets) asker(ks *v1.Kustomization, account string) identity.Asker {
	a := identity.Asker{Kind: v1.KustomizationKind, Object: types.NamespacedName{Namespace: ks.Namespace, Name: ks.Name},
		Operation: fluxv1.MetricFetchKubeConfig}
	if account == "" && t.options.DefaultKubeConfigAccount != "" {
		account, a.DefaultedBy = t.options.DefaultKubeConfigAccount, identity.KubeConfigFlag
	}
	if account != "" {
		a.Account = types.NamespacedName{Namespace: ks.Namespace, Name: account}
	}
	return a
}

// keyOf names a cluster and an identity. What differs in any of it is another cluster.
func keyOf(account types.NamespacedName, described identity.Cluster, access identity.Access) (string, error) {
	content, err := json.Marshal([]any{account, described, access.Host, access.CA})
	if err != nil {
		return "", fmt.Errorf("encode the description of a cluster: %w", err)
	}
	return fmt.Sprintf("identity-%x", sha256.Sum256(content)), nil
}

// session is the access to a cluster by an identity, renewed as it is used: a wait for health may last longer than a token.
type session struct {
	issuer  *identity.Issuer
	asker   identity.Asker
	cluster identity.Cluster

	mu     sync.Mutex
	access identity.Access
	// rejected is a token that the API server did not accept.
	rejected string
}

// take takes over access that was asked for, but for a token that is kept and was not accepted.
func (s *session) take(access identity.Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if access.Token != s.rejected || s.access.Token == "" {
		s.access = access
	}
}

// reject says that the API server did not accept a token. The next request has another one.
func (s *session) reject(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = token
}

var errMoved = errors.New("the API server has another address now, which the next reconciliation takes up")

// token returns a token that is good for a while yet.
func (s *session) token(ctx context.Context) (token, host string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	renew := s.issuer.Cluster
	switch {
	case s.access.Token == s.rejected:
		renew = s.issuer.Anew
	case time.Now().Before(s.access.RenewAfter):
		return s.access.Token, s.access.Host, nil
	}
	renewed, err := renew(ctx, s.asker, s.cluster)
	if err != nil {
		return "", "", fmt.Errorf("renew the access to %s: %w", redacted(s.access.Host), err)
	}
	if renewed.Host != s.access.Host {
		return "", "", fmt.Errorf("renew the access to %s: %w", redacted(s.access.Host), errMoved)
	}
	s.access = renewed
	return renewed.Token, renewed.Host, nil
}

// bearer shows the token of a session to its API server, and to no other one that it may be redirected to.
type bearer struct {
	session *session
	next    http.RoundTripper
}

// RoundTrip sends a request.
func (b *bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	token, host, err := b.session.token(request.Context())
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(host)
	if err != nil {
		return nil, errors.New("the address of the API server can't be read")
	}
	request = utilnet.CloneRequest(request)
	request.Header.Del("Authorization")
	shown := request.URL.Scheme == address.Scheme && request.URL.Host == address.Host
	if shown {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := b.next.RoundTrip(request)
	if err == nil && shown && response.StatusCode == http.StatusUnauthorized {
		b.session.reject(token)
	}
	return response, err
}

// WrappedRoundTripper is the transport below, as client-go asks for it.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }
