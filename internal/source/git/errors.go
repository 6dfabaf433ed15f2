package git

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Reason classes a failure, in the words of Flux's conditions.
type Reason string

// The reasons.
const (
	// ReasonURLInvalid: the URL can't name a repository; only a change of the spec helps.
	ReasonURLInvalid Reason = "URLInvalid"
	// ReasonReferenceInvalid: the reference can't exist; only a change of the spec helps.
	ReasonReferenceInvalid Reason = "ReferenceInvalid"
	// ReasonAuthenticationFailed: the server wants other credentials.
	ReasonAuthenticationFailed Reason = "AuthenticationFailed"
	// ReasonOperationFailed: anything else, which may pass.
	ReasonOperationFailed Reason = "GitOperationFailed"
)

// Error is a failure to read from a repository.
type Error struct {
	Reason Reason
	// Doing is the verb and object, such as "list references of https://host/repo".
	Doing string
	// Advice says what the user can do.
	Advice string
	Err    error
}

func (e *Error) Error() string {
	s := e.Doing + ": " + e.Err.Error()
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Permanent tells whether trying again is pointless until the spec changes.
func (e *Error) Permanent() bool {
	return e.Reason == ReasonURLInvalid || e.Reason == ReasonReferenceInvalid
}

// Refused tells whether the server wants other credentials than those that it was shown.
func (e *Error) Refused() bool {
	return errors.Is(e.Err, transport.ErrAuthenticationRequired) || errors.Is(e.Err, transport.ErrAuthorizationFailed)
}

// What is missing.
var (
	ErrReferenceNotFound = errors.New("not found")
	ErrTimeout           = errors.New("no complete answer in the time allowed")
)

// classify turns an error of the transport into one that a user can act on. A deadline that passed shows up as many
// kinds of errors, so the context is asked first.
func classify(ctx context.Context, doing string, err error) *Error {
	e := &Error{Reason: ReasonOperationFailed, Doing: doing, Err: err}
	var (
		unknownCA x509.UnknownAuthorityError
		badHost   x509.HostnameError
		dns       *net.DNSError
		dial      *net.OpError
		host      *knownhosts.KeyError
		revoked   *knownhosts.RevokedError
	)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Err = context.Canceled
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		e.Err, e.Advice = ErrTimeout, "check that the server is up, or raise spec.timeout"
	case errors.Is(err, transport.ErrAuthenticationRequired):
		e.Reason = ReasonAuthenticationFailed
		e.Advice, e.Err = wantsCredentials(ctx)
	case errors.Is(err, transport.ErrAuthorizationFailed):
		e.Reason, e.Err = ReasonAuthenticationFailed, transport.ErrAuthorizationFailed
		e.Advice = "give the account in the Secret of spec.secretRef read access to the repository"
	case errors.Is(err, transport.ErrRepositoryNotFound):
		e.Err, e.Advice = transport.ErrRepositoryNotFound, "check spec.url, and whether the repository is private and needs spec.secretRef"
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		e.Err, e.Advice = transport.ErrEmptyRemoteRepository, "push a commit to it"
	case errors.As(err, &host), errors.As(err, &revoked):
		e.Reason, e.Err, e.Advice = hostKeyFault(host)
	case refusesKey(err):
		e.Reason, e.Err = ReasonAuthenticationFailed, errKeyRefused
		e.Advice = "give the public half of identity in the Secret of spec.secretRef read access to the repository"
	case errors.As(err, &unknownCA), errors.As(err, &badHost):
		e.Err, e.Advice = plain(err), "put the certificate authority of the server into ca.crt of the Secret of spec.secretRef"
	case errors.As(err, &dns):
		e.Err, e.Advice = fmt.Errorf("look up host %s: %w", dns.Name, errNoAddress), "check the host in spec.url and that it can be reached from the cluster"
	case errors.As(err, &dial):
		e.Err, e.Advice = plain(err), "check the host in spec.url and that it can be reached from the cluster"
	default:
		e.Err, e.Advice = plain(err), "it is tried again; check that spec.url is a Git repository and its server works"
	}
	return e
}

var errNoAddress = errors.New("no address found")

// wantsCredentials tells a server that refuses the credentials from one that was not shown them.
func wantsCredentials(ctx context.Context) (advice string, err error) {
	if err := heldBack(ctx); err != nil {
		return "set spec.url to where the repository is", err
	}
	return "check username, password or bearerToken in the Secret of spec.secretRef", transport.ErrAuthenticationRequired
}

// What SSH servers do.
var (
	ErrHostUnknown  = errors.New("the server's host key is not among the known hosts")
	ErrHostMismatch = errors.New("the server's host key is another than the known one")
	errKeyRefused   = errors.New("the server accepts no such key")
)

// hostKeyFault tells a server that nobody knows from one that pretends to be a known one. Nothing was sent to either.
func hostKeyFault(host *knownhosts.KeyError) (reason Reason, err error, advice string) {
	if host != nil && len(host.Want) == 0 {
		return ReasonAuthenticationFailed, ErrHostUnknown,
			"put what `ssh-keyscan HOST` prints, once you have checked it, under known_hosts into the Secret of spec.secretRef"
	}
	return ReasonAuthenticationFailed, ErrHostMismatch,
		"find out whether the server was given a new key or somebody is in between; correct known_hosts in the Secret of spec.secretRef only then"
}

// refusesKey tells whether an SSH server refused to let us in. The library has no type for it, only words.
func refusesKey(err error) bool {
	return strings.Contains(err.Error(), "ssh: unable to authenticate")
}

// plain takes the method and URL off an error of net/http: the URL is named already, and local ports would make the
// message change from one attempt to the next. What a server wrote is brought to one line of bounded length.
func plain(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return &shortened{err}
}

// shortened is an error whose message is one line of bounded length.
type shortened struct{ error }

func (e *shortened) Error() string {
	const limit = 300
	line := strings.Join(strings.Fields(e.error.Error()), " ")
	if len(line) > limit {
		line = strings.ToValidUTF8(line[:limit], "") + "..."
	}
	return line
}

func (e *shortened) Unwrap() error { return e.error }
