package git

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// prepare changes what go-git does for the whole process, before the first connection.
//
// Azure DevOps and AWS CodeCommit talk only to clients that claim multi_ack, which go-git leaves out by default since it has but a part
// of it: enough to fetch into an empty store, which is all that is done here. Flux does the same.
//
// The client that it comes with shows credentials to whatever listens on another port of a host, and without TLS, where the host
// redirects there.
var prepare = sync.OnceFunc(func() {
	transport.UnsupportedCapabilities = []capability.Capability{capability.ThinPack}
	careful := githttp.NewClient(&http.Client{Transport: http.DefaultTransport, CheckRedirect: keepCredentials})
	client.InstallProtocol("http", careful)
	client.InstallProtocol("https", careful)
})

// keepCredentials takes the credentials off a request that goes to another server than the first one. The library has copied
// them by then.
func keepCredentials(next *http.Request, via []*http.Request) error {
	if serverOf(next.URL) == serverOf(via[0].URL) {
		return nil
	}
	next.Header.Del("Authorization")
	if left, ok := next.Context().Value(leftKey{}).(*departure); ok && via[0].Header.Get("Authorization") != "" {
		left.leave(next.URL)
	}
	return nil
}

// serverOf is what credentials are for: a scheme, a host and a port.
func serverOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

type leftKey struct{}

// departure is where a server redirected to, beyond itself.
type departure struct {
	mu sync.Mutex
	to string
}

func (d *departure) leave(to *url.URL) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to.Scheme + "://" + to.Host
}

// watchRedirects makes a context that knows whether credentials were held back.
func watchRedirects(ctx context.Context) context.Context {
	return context.WithValue(ctx, leftKey{}, &departure{})
}

var errHeldBack = errors.New("the credentials are not shown to another server")

// heldBack tells that a server redirected to another one, which was not shown the credentials; nil if that was not so.
func heldBack(ctx context.Context) error {
	left, ok := ctx.Value(leftKey{}).(*departure)
	if !ok {
		return nil
	}
	left.mu.Lock()
	defer left.mu.Unlock()
	if left.to == "" {
		return nil
	}
	return fmt.Errorf("it redirects to %s: %w", left.to, errHeldBack)
}
