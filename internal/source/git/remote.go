package git

import (
	"context"
	"fmt"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Remote is a repository on a server.
type Remote struct {
	address string // without credentials
	auth    Auth
	access  access
	tempDir string
}

// NewRemote checks a URL and what is needed to reach it. Credentials in the URL fill in what auth lacks, and are never
// shown. What is fetched is kept in directories below tempDir, the system's when empty, until it is closed.
func NewRemote(raw string, auth Auth, tempDir string) (*Remote, error) {
	prepare()
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	a, err := auth.forURL(u)
	if err != nil {
		return nil, err
	}
	// Submodules on the same server get in the same way.
	if auth.Username == "" || u.Scheme == "ssh" {
		auth.Username = u.User.Username()
	}
	if password, ok := u.User.Password(); ok && auth.Password == "" {
		auth.Password = password
	}
	u.User = nil
	return &Remote{address: u.String(), auth: auth, access: a, tempDir: tempDir}, nil
}

// String is the URL without credentials.
func (r *Remote) String() string { return r.address }

// Resolve asks the remote for the commit that a reference points at. A reference that names a commit is answered
// without asking.
func (r *Remote) Resolve(ctx context.Context, ref Reference) (Head, error) {
	if err := ref.validate(); err != nil {
		return Head{}, err
	}
	if ref.Commit != "" {
		return ref.head("", ref.Commit), nil
	}
	ctx = watchRedirects(ctx)
	refs, err := r.list(ctx)
	if err != nil {
		return Head{}, classify(ctx, "list references of "+r.address, err)
	}
	source := ref.name()
	if ref.byRange() {
		if source, err = r.latest(ctx, newest(refs, ref.SemVer), ref); err != nil {
			return Head{}, err
		}
	}
	commit := find(refs, source)
	if commit == "" {
		return Head{}, missing(ref, r.address)
	}
	return ref.head(source, commit), nil
}

func (r *Remote) list(ctx context.Context) ([]*plumbing.Reference, error) {
	proxy, done := r.access.dial(ctx)
	defer done()
	return r.git(memory.NewStorage()).ListContext(ctx, &gogit.ListOptions{
		Auth: r.access.method, CABundle: r.access.tls.CA, ClientCert: r.access.tls.Cert, ClientKey: r.access.tls.Key,
		ProxyOptions: proxy, PeelingOption: gogit.AppendPeeled,
	})
}

// find picks the commit of a reference. A tag with a message points at an object of its own; the entry with the
// suffix says which commit that one means.
func find(refs []*plumbing.Reference, name plumbing.ReferenceName) string {
	commit := ""
	for _, x := range refs {
		switch x.Name() {
		case name + peeled:
			return x.Hash().String()
		case name:
			commit = x.Hash().String()
		}
	}
	return commit
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
