package git

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Auth is what proves who we are. The zero value is nobody.
type Auth struct {
	Username, Password string
	// BearerToken is used instead of username and password when set.
	BearerToken string
}

// Remote is a repository on a server.
type Remote struct {
	address string // without credentials
	auth    transport.AuthMethod
	ca      []byte
}

// NewRemote checks a URL. Credentials in it are used unless auth has some, and are never shown. ca is PEM to trust
// beside the system's authorities.
func NewRemote(raw string, auth Auth, ca []byte) (*Remote, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats the URL, with the password that may be in it.
		return nil, invalidURL(errors.New("it can't be parsed"))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalidURL(fmt.Errorf("scheme %q is not supported", u.Scheme))
	case u.Hostname() == "":
		return nil, invalidURL(errors.New("it names no host"))
	case u.RawQuery != "" || u.Fragment != "":
		// Git can't use either, and a token in one would end up in messages.
		return nil, invalidURL(errors.New("it has a query or fragment"))
	}
	if auth == (Auth{}) && u.User != nil {
		auth.Username = u.User.Username()
		auth.Password, _ = u.User.Password()
	}
	u.User = nil
	return &Remote{address: u.String(), auth: auth.method(), ca: ca}, nil
}

func invalidURL(err error) *Error {
	return &Error{Reason: ReasonURLInvalid, Doing: "read spec.url", Err: err, Advice: "set it to the http or https URL of a repository"}
}

func (a Auth) method() transport.AuthMethod {
	switch {
	case a.BearerToken != "":
		return &http.TokenAuth{Token: a.BearerToken}
	case a.Username != "" || a.Password != "":
		return &http.BasicAuth{Username: a.Username, Password: a.Password}
	default:
		return nil
	}
}

// String is the URL without credentials.
func (r *Remote) String() string { return r.address }

// Resolve asks the remote for the commit that a reference points at. A reference that names a commit is answered
// without asking.
func (r *Remote) Resolve(ctx context.Context, ref Reference) (commit string, err error) {
	if err := ref.validate(); err != nil {
		return "", err
	}
	if ref.Commit != "" {
		return ref.Commit, nil
	}
	doing := "list references of " + r.address
	refs, err := r.git(memory.NewStorage()).ListContext(ctx, &gogit.ListOptions{
		Auth: r.auth, CABundle: r.ca, PeelingOption: gogit.AppendPeeled,
	})
	if err != nil {
		return "", classify(ctx, doing, err)
	}
	return find(refs, ref, r.address)
}

// find picks the commit of a reference. A tag with a message points at an object of its own; the entry with the
// suffix says which commit that one means.
func find(refs []*plumbing.Reference, ref Reference, remote string) (string, error) {
	const peeled = "^{}"
	commit := ""
	for _, x := range refs {
		switch x.Name().String() {
		case ref.name() + peeled:
			return x.Hash().String(), nil
		case ref.name():
			commit = x.Hash().String()
		}
	}
	if commit == "" {
		return "", missing(ref, remote)
	}
	return commit, nil
}

func missing(ref Reference, remote string) *Error {
	return &Error{
		Reason: ReasonOperationFailed,
		Doing:  fmt.Sprintf("find %s in %s", ref, remote),
		Err:    ErrReferenceNotFound,
		Advice: "push it or change spec.ref",
	}
}

func (r *Remote) git(s storage.Storer) *gogit.Remote {
	return gogit.NewRemote(s, &config.RemoteConfig{Name: "origin", URLs: []string{r.address}})
}
