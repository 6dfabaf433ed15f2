package git

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
)

// Auth is what proves who we are, and who the server is. The zero value is nobody, who trusts the system's authorities.
type Auth struct {
	// Username and Password are for HTTP. Password is also the passphrase of Identity.
	Username, Password string
	// BearerToken is used instead of username and password when set.
	BearerToken string
	TLS         TLS
	// Identity is a private key for SSH, and KnownHosts are the keys of the servers that are trusted.
	Identity, KnownHosts []byte
	// Proxy is what the server is reached through; the environment decides when it is nil.
	Proxy *url.URL
}

// TLS holds PEM: authorities to trust beside the system's, and what a server that wants a client certificate gets.
type TLS struct {
	CA, Cert, Key []byte
}

// access is an Auth that was checked and fits a URL.
type access struct {
	method transport.AuthMethod
	tls    TLS
	proxy  *url.URL
	// ssh tells that the connection is made by a dialer of our own.
	ssh bool
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats the URL, with the password that may be in it.
		return nil, invalidURL(errors.New("it can't be parsed"))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "ssh":
		return nil, invalidURL(fmt.Errorf("scheme %q is not supported", u.Scheme))
	case u.Hostname() == "":
		return nil, invalidURL(errors.New("it names no host"))
	case u.RawQuery != "" || u.Fragment != "":
		// Git can't use either, and a token in one would end up in messages.
		return nil, invalidURL(errors.New("it has a query or fragment"))
	}
	return u, nil
}

func invalidURL(err error) *Error {
	return &Error{Reason: ReasonURLInvalid, Doing: "read spec.url", Err: err, Advice: "set it to the http, https or ssh URL of a repository"}
}

// forURL checks what is needed for a URL.
func (a Auth) forURL(u *url.URL) (access, error) {
	if u.Scheme == "ssh" {
		return a.forSSH(u)
	}
	out := access{tls: a.TLS, proxy: a.Proxy}
	if len(a.TLS.Cert) > 0 || len(a.TLS.Key) > 0 {
		if _, err := tls.X509KeyPair(a.TLS.Cert, a.TLS.Key); err != nil {
			return access{}, unusable(errors.New("tls.crt and tls.key are no certificate with its key"), "put both into the Secret, as PEM")
		}
	}
	if a.BearerToken != "" {
		out.method = &http.TokenAuth{Token: a.BearerToken}
		return out, nil
	}
	username, password := a.Username, a.Password
	if username == "" {
		username = u.User.Username()
	}
	if password == "" {
		password, _ = u.User.Password()
	}
	switch {
	case username == "" && password != "":
		return access{}, unusable(errors.New("it has a password and no username"), "add username; for a token any username will do")
	case username != "":
		out.method = &http.BasicAuth{Username: username, Password: password}
	}
	return out, nil
}

// unusable says that the credentials can't work, whatever the server says.
func unusable(err error, advice string) *Error {
	return &Error{Reason: ReasonAuthenticationFailed, Doing: "use the Secret of spec.secretRef", Err: err, Advice: advice}
}

// dial is how a connection is made; call done when it is not needed any more.
func (a access) dial(ctx context.Context) (_ transport.ProxyOptions, done func()) {
	if a.ssh {
		return boundedDial(ctx, a.proxy)
	}
	if a.proxy == nil {
		return transport.ProxyOptions{}, func() {}
	}
	return transport.ProxyOptions{URL: a.proxy.String()}, func() {}
}
