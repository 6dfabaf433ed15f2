package target

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"

	fluxclient "github.com/fluxcd/pkg/runtime/client"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/identity"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// The bounds on what is kept: one more account or cluster than that costs making its clients anew each time.
const (
	maxAccounts = 1000
	maxClusters = 100
)

// Options are the settings of Targets.
type Options struct {
	// Config, HTTPClient and Mapper are those of the controller, for its own cluster.
	Config     *rest.Config
	HTTPClient *http.Client
	Mapper     meta.RESTMapper
	Scheme     *runtime.Scheme
	// DefaultServiceAccount is impersonated where a Kustomization names no account.
	DefaultServiceAccount string
	// KubeConfig says what of a kubeconfig may be used.
	KubeConfig fluxclient.KubeConfigOptions
	// Identity gets access to the clusters that ConfigMaps describe.
	Identity *identity.Issuer
	// DefaultKubeConfigAccount is the account whose identity gets access where a ConfigMap names none.
	DefaultKubeConfigAccount string
	// Executor makes an executor that writes with a client.
	Executor func(client.Client) *execute.Executor
}

// Targets makes targets, and keeps those that were used last.
type Targets struct {
	options  Options
	own      *cluster
	ownOne   *Target
	accounts *lru.Cache
	clusters *lru.Cache
}

// New returns the targets of a controller.
func New(o Options) (*Targets, error) {
	own, err := newCluster(o.Config, o.HTTPClient, o.Mapper, o.Scheme)
	if err != nil {
		return nil, err
	}
	t := &Targets{options: o, own: own, accounts: lru.New(maxAccounts), clusters: lru.New(maxClusters)}
	t.ownOne, err = t.make(own, types.NamespacedName{})
	return t, err
}

// Own is the controller's own cluster with the controller's own rights.
func (t *Targets) Own() *Target { return t.ownOne }

// AccountOf is the account that works for a Kustomization; without a name it is the controller itself, or whoever its
// kubeconfig names.
func (t *Targets) AccountOf(ks *v1.Kustomization) types.NamespacedName {
	name := ks.Spec.ServiceAccountName
	if name == "" {
		name = t.options.DefaultServiceAccount
	}
	if name == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: ks.Namespace, Name: name}
}

// Of returns the target of a Kustomization. Its kubeconfig is read anew each time, and its cluster has to answer.
func (t *Targets) Of(ctx context.Context, ks *v1.Kustomization) (*Target, error) {
	account := t.AccountOf(ks)
	if problems := path.IsValidPathSegmentName(account.Name); len(problems) > 0 {
		return nil, fmt.Errorf("the ServiceAccount name %q %s", account.Name, strings.Join(problems, ", "))
	}
	c := t.own
	if ks.Spec.KubeConfig != nil {
		var err error
		if c, err = t.remote(ctx, ks); err != nil {
			return nil, err
		}
	} else if account.Name == "" {
		return t.ownOne, nil
	}
	key := c.key + "/" + account.String()
	if made, ok := t.accounts.Get(key); ok {
		return made.(*Target), nil //nolint:forcetypeassert // nothing else is put in
	}
	made, err := t.make(c, account)
	if err != nil {
		return nil, err
	}
	t.accounts.Add(key, made)
	return made, nil
}

// remote returns the cluster of a kubeconfig. One that was used before is kept by its content, so that a changed kubeconfig, be
// it only in its token, is another one.
func (t *Targets) remote(ctx context.Context, ks *v1.Kustomization) (*cluster, error) {
	if ks.Spec.KubeConfig.ConfigMapRef != nil {
		return t.byIdentity(ctx, ks)
	}
	content, err := readKubeConfig(ctx, t.own.client, ks)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(content))
	if kept, ok := t.clusters.Get(key); ok {
		c := kept.(*cluster) //nolint:forcetypeassert // nothing else is put in
		return c, c.answers(ctx)
	}
	config, err := parseKubeConfig(content, t.options.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in Secret/%s/%s: %w", ks.Namespace, ks.Spec.KubeConfig.SecretRef.Name, err)
	}
	c, err := newRemote(key, config, t.options)
	if err != nil {
		return nil, err
	}
	t.clusters.Add(key, c)
	return c, c.answers(ctx)
}

// make makes the clients of an account on a cluster.
func (t *Targets) make(c *cluster, account types.NamespacedName) (*Target, error) {
	direct, key := c.client, c.key
	if account.Name != "" {
		key += "/" + account.String()
		var err error
		if direct, err = c.as(User(account), t.options.Scheme); err != nil {
			return nil, err
		}
	}
	return &Target{
		Key: key, Remote: c.key != "", Account: account, Mapper: c.mapper, accounts: c.client,
		Executor: t.options.Executor(direct),
		Observer: &observe.Observer{Reader: direct, Mapper: c.mapper, Discovery: c.discovery},
		Users:    &observe.Observer{Reader: c.client, Mapper: c.mapper, Discovery: c.discovery},
	}, nil
}

// cluster is an API server, and a client with the rights of the configuration itself.
type cluster struct {
	// key is empty for the controller's own.
	key       string
	config    *rest.Config
	mapper    meta.RESTMapper
	discovery discovery.DiscoveryInterface
	client    client.Client
	probe     probe
	// session is what the identity of a ConfigMap gives; nil without.
	session *session
}

func newCluster(config *rest.Config, httpClient *http.Client, mapper meta.RESTMapper, scheme *runtime.Scheme) (*cluster, error) {
	direct, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make a client for managed objects: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	return &cluster{config: config, mapper: mapper, discovery: disco, client: direct}, nil
}

// as returns a client that acts as a user. It never acts as anybody else.
func (c *cluster) as(user string, scheme *runtime.Scheme) (client.Client, error) {
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	direct, err := client.New(config, client.Options{Scheme: scheme, Mapper: c.mapper})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", user, err)
	}
	return direct, nil
}
