package target

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	fluxclient "github.com/fluxcd/pkg/runtime/client"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// newRemote makes the clients of a kubeconfig.
func newRemote(key string, config *rest.Config, o Options) (*cluster, error) {
	// The look for fairness is a request, which must not hold up a worker on a cluster that does not answer.
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	config = fluxclient.KubeConfig(ctx, config, o.KubeConfig)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the kubeconfig: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a mapper of the kubeconfig: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client of the kubeconfig: %w", err)
	}
	c, err := newCluster(config, httpClient, observe.NewMapper(mapper, disco), o.Scheme)
	if err != nil {
		return nil, err
	}
	c.key = key
	return c, nil
}

// The times of the look whether a cluster is there.
const (
	// probeTimeout is how long it may take.
	probeTimeout = 5 * time.Second
	// probeAge is how long its answer is good for: every pass of every Kustomization of the cluster looks.
	probeAge = 10 * time.Second
)

// probe remembers whether a cluster answered.
type probe struct {
	// asking is held by whoever is finding out.
	asking sync.Mutex

	mu  sync.Mutex
	at  time.Time
	err error
}

// last returns the last answer, and whether there is one and it is young enough.
func (p *probe) last() (err error, known, fresh bool) { //nolint:revive // the answer comes first
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err, !p.at.IsZero(), time.Since(p.at) < probeAge
}

// answers returns nil if the API server answers in time, whatever it says. One that does not is left alone for a while, and
// asked by one worker at a time, so that a cluster which is down does not hold the workers one request after the other.
func (c *cluster) answers(ctx context.Context) error {
	p := &c.probe
	err, known, fresh := p.last()
	if fresh {
		return err
	}
	if !p.asking.TryLock() {
		if known {
			return err
		}
		p.asking.Lock()
	}
	defer p.asking.Unlock()
	if err, _, fresh := p.last(); fresh {
		return err
	}
	err = c.ask(ctx)
	if ctx.Err() == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.at, p.err = time.Now(), err
	}
	return err
}

func (c *cluster) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := c.discovery.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	var answer apierrors.APIStatus
	if err == nil || errors.As(err, &answer) {
		return nil
	}
	return fmt.Errorf("the API server of the kubeconfig, %s, does not answer: %w", redacted(c.config.Host), err)
}

// redacted is the address of a server without credentials in it.
func redacted(host string) string {
	if u, err := url.Parse(host); err == nil {
		return u.Redacted()
	}
	return "(an address that can't be read)"
}
