package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
)

// Objects larger than this are streamed from disk, and this much of others is kept in memory during a fetch.
const (
	largeObject = 1 << 20
	objectCache = 16 * cache.MiByte
)

// fetched is the name that a fetched commit gets in the object store.
const fetched = plumbing.ReferenceName("refs/holdfast/fetched")

// Snapshot is a commit with all its files. Close it when the tree has been read.
type Snapshot struct {
	// Commit is the hash and Revision the name for a status.
	Commit, Revision string
	// Subject is the first line of the commit message.
	Subject string
	// Tree holds the files; it reads them from disk until Close.
	Tree *artifact.Tree
	// Head is the commit as something that may be signed, and Tag the tag that led to it: nil when the reference is no tag, or the
	// tag is nothing but a name.
	Head, Tag *Signed
	// ByTag tells whether the reference is a tag.
	ByTag bool

	root   fetchedCommit
	stores []*objectStore
}

// Close removes what was written to disk.
func (s *Snapshot) Close() error {
	var failed []error
	for _, store := range s.stores {
		failed = append(failed, store.Close())
	}
	return errors.Join(failed...)
}

// Fetch gets the commit that a resolved reference points at now. Its objects are kept in a directory of their own.
func (r *Remote) Fetch(ctx context.Context, head Head) (_ *Snapshot, err error) {
	ctx = watchRedirects(ctx)
	store, err := r.newStore()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{stores: []*objectStore{store}, Tree: artifact.NewTree()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	commit, tag, err := r.get(ctx, head, store.Storage)
	if err != nil {
		return nil, err
	}
	s.Commit, s.ByTag = commit.Hash.String(), head.source.IsTag()
	s.Revision = head.wanted.revision(head.source, s.Commit)
	s.Subject, _, _ = strings.Cut(strings.TrimSpace(commit.Message), "\n")
	if s.Head, err = signedCommit(commit); err != nil {
		return nil, err
	}
	if tag != nil {
		if s.Tag, err = signedTag(tag, head.source); err != nil {
			return nil, err
		}
	}
	if s.root, err = readTree(ctx, store.Storage, commit, s.Tree, ""); err != nil {
		return nil, &Error{Reason: ReasonOperationFailed, Doing: fmt.Sprintf("read %s of %s", s.Revision, r.address), Err: err}
	}
	return s, nil
}

// objectStore keeps objects in a directory of its own.
type objectStore struct {
	*filesystem.Storage
	dir string
}

func (r *Remote) newStore() (*objectStore, error) {
	dir, err := os.MkdirTemp(r.tempDir, "git-*")
	if err != nil {
		return nil, fmt.Errorf("create directory for a Git fetch: %w; check the space and rights of the temporary directory", err)
	}
	return &objectStore{dir: dir, Storage: filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(objectCache),
		filesystem.Options{ExclusiveAccess: true, KeepDescriptors: true, LargeObjectThreshold: largeObject})}, nil
}

// Close removes what was written to disk.
func (s *objectStore) Close() error { return errors.Join(s.Storage.Close(), os.RemoveAll(s.dir)) }

// get fetches a commit, and the tag that led to it where that is an object of its own.
func (r *Remote) get(ctx context.Context, head Head, s *filesystem.Storage) (*object.Commit, *object.Tag, error) {
	if head.source == "" {
		commit, err := r.getCommit(ctx, head.wanted, s)
		return commit, nil, err
	}
	err := r.fetch(ctx, s, 1, head.source.String()+":"+fetched.String())
	var noMatch gogit.NoMatchingRefSpecError
	if errors.As(err, &noMatch) {
		return nil, nil, missing(head.wanted, r.address)
	}
	doing := fmt.Sprintf("fetch %s from %s", head.wanted, r.address)
	if err != nil {
		return nil, nil, classify(ctx, doing, err)
	}
	at, err := s.Reference(fetched)
	if err != nil {
		return nil, nil, classify(ctx, doing, err)
	}
	commit, tag, err := peel(s, at.Hash())
	if err != nil {
		return nil, nil, classify(ctx, doing, err)
	}
	return commit, tag, nil
}

// getCommit fetches a single commit. Alone it is asked for by its hash; a server that doesn't allow that sends all
// branches and tags. With a branch, the history of the branch is fetched, since the commit must be on it.
func (r *Remote) getCommit(ctx context.Context, ref Reference, s *filesystem.Storage) (*object.Commit, error) {
	hash := plumbing.NewHash(ref.Commit)
	var err error
	if ref.Branch == "" {
		err = r.fetch(ctx, s, 1, ref.Commit+":"+fetched.String())
		if err != nil && ctx.Err() == nil {
			err = r.fetch(ctx, s, 0, "refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*")
		}
	} else {
		err = r.fetch(ctx, s, 0, ref.name().String()+":"+fetched.String())
	}
	var noMatch gogit.NoMatchingRefSpecError
	if errors.As(err, &noMatch) {
		return nil, missing(ref, r.address)
	}
	doing := fmt.Sprintf("fetch %s from %s", ref, r.address)
	if err != nil {
		return nil, classify(ctx, doing, err)
	}
	commit, err := object.GetCommit(s, hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, missing(ref, r.address)
	}
	if err != nil {
		return nil, classify(ctx, doing, err)
	}
	return commit, nil
}

func (r *Remote) fetch(ctx context.Context, s *filesystem.Storage, depth int, specs ...string) error {
	proxy, done := r.access.dial(ctx)
	defer done()
	o := &gogit.FetchOptions{
		Depth: depth, Tags: gogit.NoTags, Force: true, Auth: r.access.method, ProxyOptions: proxy,
		CABundle: r.access.tls.CA, ClientCert: r.access.tls.Cert, ClientKey: r.access.tls.Key,
	}
	for _, spec := range specs {
		o.RefSpecs = append(o.RefSpecs, config.RefSpec("+"+spec))
	}
	return r.git(s).FetchContext(ctx, o)
}

// latest picks one of the tags of the same version: that of the youngest commit, as Flux does.
func (r *Remote) latest(ctx context.Context, tags []plumbing.ReferenceName, ref Reference) (_ plumbing.ReferenceName, err error) {
	switch len(tags) {
	case 0:
		return "", missing(ref, r.address)
	case 1:
		return tags[0], nil
	}
	store, err := r.newStore()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	specs := make([]string, 0, len(tags))
	for _, name := range tags {
		specs = append(specs, name.String()+":"+name.String())
	}
	doing := fmt.Sprintf("compare the tags of the same version that %s leads to in %s", ref, r.address)
	if err := r.fetch(ctx, store.Storage, 1, specs...); err != nil {
		return "", classify(ctx, doing, err)
	}
	youngest, when := plumbing.ReferenceName(""), time.Time{}
	for _, name := range tags {
		at, err := store.Reference(name)
		if err != nil {
			return "", classify(ctx, doing, err)
		}
		commit, _, err := peel(store.Storage, at.Hash())
		if err != nil {
			return "", classify(ctx, doing, err)
		}
		if youngest == "" || commit.Committer.When.After(when) {
			youngest, when = name, commit.Committer.When
		}
	}
	return youngest, nil
}

// peel follows a tag object to its commit, and returns both; no tag when there is none.
func peel(s *filesystem.Storage, hash plumbing.Hash) (_ *object.Commit, outermost *object.Tag, _ error) {
	const nested = 5 // a tag of a tag is legal and rare
	for range nested {
		tag, err := object.GetTag(s, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if outermost == nil {
			outermost = tag
		}
		hash = tag.Target
	}
	commit, err := object.GetCommit(s, hash)
	return commit, outermost, err
}
