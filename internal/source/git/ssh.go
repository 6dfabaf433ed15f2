package git

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"

	"github.com/fluxcd/pkg/ssh/knownhosts"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/net/proxy"
)

// defaultUser is the user of an SSH URL that names none: the one that all forges have.
const defaultUser = "git"

// key logs in with a private key, and trusts the known hosts only. No agent, no file of the machine, no setting of its
// user plays a part.
type key struct {
	user       string
	signer     ssh.Signer
	trusts     ssh.HostKeyCallback
	algorithms []string
}

// Name is the name of the method.
func (k *key) Name() string { return gitssh.PublicKeysName }

// String tells nothing of the key.
func (k *key) String() string { return k.Name() }

// ClientConfig is the configuration of a connection.
func (k *key) ClientConfig() (*ssh.ClientConfig, error) {
	return &ssh.ClientConfig{
		User: k.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(k.signer)},
		HostKeyCallback: k.trusts, HostKeyAlgorithms: k.algorithms,
	}, nil
}

func (a Auth) forSSH(u *url.URL) (access, error) {
	switch {
	case len(a.Identity) == 0:
		return access{}, unusable(errors.New("there is no private key"), "put it under identity into the Secret of spec.secretRef")
	case len(a.KnownHosts) == 0:
		return access{}, unusable(errors.New("there are no known hosts"),
			"put what `ssh-keyscan HOST` prints, once you have checked it, under known_hosts into the Secret of spec.secretRef")
	case a.Proxy != nil && a.Proxy.Scheme != "socks5" && a.Proxy.Scheme != "socks5h":
		return access{}, unusable(fmt.Errorf("a proxy of scheme %q can't carry SSH", a.Proxy.Scheme), "use a socks5 proxy in spec.proxySecretRef")
	}
	signer, err := a.signer()
	if err != nil {
		return access{}, err
	}
	trusts, _, err := knownhosts.New(a.KnownHosts)
	if err != nil {
		return access{}, unusable(errors.New("known_hosts can't be read"), "put what `ssh-keyscan HOST` prints there")
	}
	user := u.User.Username()
	if user == "" {
		user = defaultUser
	}
	return access{ssh: true, proxy: a.Proxy, method: &key{user: user, signer: signer, trusts: trusts, algorithms: algorithms(trusts, u)}}, nil
}

// signer reads the private key. The errors of the library are withheld: they may quote it.
func (a Auth) signer() (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(a.Identity)
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		if a.Password == "" {
			return nil, unusable(errors.New("identity is encrypted"), "put its passphrase under password into the Secret")
		}
		if signer, err = ssh.ParsePrivateKeyWithPassphrase(a.Identity, []byte(a.Password)); err != nil {
			return nil, unusable(errors.New("identity can't be decrypted with password"), "correct one of them")
		}
	}
	if err != nil {
		return nil, unusable(errors.New("identity is no private key"), "put one in PEM there, as `ssh-keygen` writes it")
	}
	return signer, nil
}

// algorithms are those of the keys that are known of a host. A server with several keys is so asked for one that can be
// checked. All are allowed where none is known, for hosts that an authority vouches for.
func algorithms(trusts ssh.HostKeyCallback, u *url.URL) []string {
	port := u.Port()
	if port == "" {
		port = "22"
	}
	// No server has this key, so that the answer lists those that are known.
	unknown, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		return nil
	}
	var answer *xknownhosts.KeyError
	if !errors.As(trusts(net.JoinHostPort(u.Hostname(), port), &net.TCPAddr{}, unknown), &answer) {
		return nil
	}
	var out []string
	for _, known := range answer.Want {
		// ssh-rsa names the kind of the key and, as an algorithm, SHA-1; today's hashes come first.
		if known.Key.Type() == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		}
		out = append(out, known.Key.Type())
	}
	slices.Sort(out)
	return out
}

// boundedScheme names the dialer below in the options of go-git.
//
// go-git connects to an SSH server without a context, and x/crypto puts no limit on the handshake: a server that accepts
// and says nothing would hold a worker for ever. The one thing that go-git lets others do is to dial through a proxy, so a
// dialer stands in for one. The connections that it makes end with the context.
const boundedScheme = "holdfast-bounded"

// dialers are the dials under way, by the host of their made-up proxy URL.
var dialers sync.Map

func init() {
	// Not the user's ssh_config either: it can send a connection to another host.
	gitssh.DefaultSSHConfig = nil
	proxy.RegisterDialerType(boundedScheme, func(u *url.URL, _ proxy.Dialer) (proxy.Dialer, error) {
		d, ok := dialers.Load(u.Host)
		if !ok {
			return nil, errors.New("the connection is not wanted any more")
		}
		return d.(*dialer), nil //nolint:forcetypeassert // nothing else is stored
	})
}

func boundedDial(ctx context.Context, through *url.URL) (_ transport.ProxyOptions, done func()) {
	id := rand.Text()
	dialers.Store(id, &dialer{ctx: ctx, through: through})
	return transport.ProxyOptions{URL: boundedScheme + "://" + id}, func() { dialers.Delete(id) }
}

// dialer makes connections that end with its context.
type dialer struct {
	ctx     context.Context //nolint:containedctx // go-git has no other way for it
	through *url.URL
}

// Dial is what proxy.Dialer asks for.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	return d.DialContext(d.ctx, network, addr)
}

// DialContext ignores go-git's context, which never ends.
func (d *dialer) DialContext(_ context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.connect(network, addr)
	if err != nil {
		return nil, err
	}
	return &bounded{Conn: conn, stop: context.AfterFunc(d.ctx, func() { _ = conn.Close() })}, nil // whoever reads from it sees the error
}

func (d *dialer) connect(network, addr string) (net.Conn, error) {
	if d.through == nil {
		return proxy.Dial(d.ctx, network, addr)
	}
	through, err := proxy.FromURL(d.through, proxy.Direct)
	if err != nil {
		return nil, errors.New("the address in the Secret of spec.proxySecretRef can't be used")
	}
	bounded, ok := through.(proxy.ContextDialer)
	if !ok {
		return nil, errors.New("the proxy can't be dialled with a time limit")
	}
	return bounded.DialContext(d.ctx, network, addr)
}

// bounded is a connection that ends with a context.
type bounded struct {
	net.Conn
	stop func() bool
}

// Close also lets go of the context.
func (b *bounded) Close() error {
	b.stop()
	return b.Conn.Close()
}
