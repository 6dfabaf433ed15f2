package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

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

	dir     string
	storage *filesystem.Storage
}

// Close removes what Fetch wrote to disk.
func (s *Snapshot) Close() error {
	return errors.Join(s.storage.Close(), os.RemoveAll(s.dir))
}

// Fetch gets the commit that a reference points at now. Its objects are kept in a directory of their own below
// tempDir, the system's when empty.
func (r *Remote) Fetch(ctx context.Context, ref Reference, tempDir string) (_ *Snapshot, err error) {
	if err := ref.validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(tempDir, "git-*")
	if err != nil {
		return nil, fmt.Errorf("create directory for a Git fetch: %w; check the space and rights of the temporary directory", err)
	}
	s := &Snapshot{dir: dir, storage: filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(objectCache),
		filesystem.Options{ExclusiveAccess: true, KeepDescriptors: true, LargeObjectThreshold: largeObject})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	commit, err := r.get(ctx, ref, s.storage)
	if err != nil {
		return nil, err
	}
	s.Commit, s.Revision = commit.Hash.String(), ref.Revision(commit.Hash.String())
	s.Subject, _, _ = strings.Cut(strings.TrimSpace(commit.Message), "\n")
	if s.Tree, err = readTree(ctx, s.storage, commit); err != nil {
		return nil, &Error{Reason: ReasonOperationFailed, Doing: fmt.Sprintf("read %s of %s", s.Revision, r.address), Err: err}
	}
	return s, nil
}

func (r *Remote) get(ctx context.Context, ref Reference, s *filesystem.Storage) (*object.Commit, error) {
	if ref.Commit != "" {
		return r.getCommit(ctx, ref, s)
	}
	err := r.fetch(ctx, s, 1, ref.name()+":"+fetched.String())
	var noMatch gogit.NoMatchingRefSpecError
	if errors.As(err, &noMatch) {
		return nil, missing(ref, r.address)
	}
	doing := fmt.Sprintf("fetch %s from %s", ref, r.address)
	if err != nil {
		return nil, classify(ctx, doing, err)
	}
	head, err := s.Reference(fetched)
	if err != nil {
		return nil, classify(ctx, doing, err)
	}
	commit, err := peel(s, head.Hash())
	if err != nil {
		return nil, classify(ctx, doing, err)
	}
	return commit, nil
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
		err = r.fetch(ctx, s, 0, Reference{Branch: ref.Branch}.name()+":"+fetched.String())
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
	o := &gogit.FetchOptions{Depth: depth, Tags: gogit.NoTags, Force: true, Auth: r.auth, CABundle: r.ca}
	for _, spec := range specs {
		o.RefSpecs = append(o.RefSpecs, config.RefSpec("+"+spec))
	}
	return r.git(s).FetchContext(ctx, o)
}

// peel follows a tag object to its commit.
func peel(s *filesystem.Storage, hash plumbing.Hash) (*object.Commit, error) {
	const nested = 5 // a tag of a tag is legal and rare
	for range nested {
		tag, err := object.GetTag(s, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return object.GetCommit(s, hash)
		}
		if err != nil {
			return nil, err
		}
		hash = tag.Target
	}
	return object.GetCommit(s, hash)
}
