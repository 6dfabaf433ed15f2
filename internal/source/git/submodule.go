package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// The bounds on submodules of submodules, and on the file that names them.
const (
	maxSubmoduleDepth = 10
	maxSubmodules     = 200
	maxModulesFile    = 1 << 20
)

// link is the place of a submodule in a tree, and the commit that it has there.
type link struct {
	path   string
	commit plumbing.Hash
}

// AddSubmodules puts the files of all submodules into the tree, with those of their own submodules.
//
// The credentials are for the server that the spec names: a submodule on another server is fetched without them. SSH is the
// exception, because its key is not shown to anybody, and known_hosts says which servers may see it used.
func (s *Snapshot) AddSubmodules(ctx context.Context, r *Remote) error {
	budget := maxSubmodules
	return s.addSubmodules(ctx, r, s.root, "", maxSubmoduleDepth, &budget)
}

func (s *Snapshot) addSubmodules(ctx context.Context, r *Remote, parent fetchedCommit, prefix string, depth int, budget *int) error {
	if len(parent.links) == 0 {
		return nil
	}
	modules, err := parent.modules()
	if err != nil {
		return &Error{Reason: ReasonOperationFailed, Doing: fmt.Sprintf("read .gitmodules of %s", r.address), Err: err, Advice: "correct it in the repository"}
	}
	for _, at := range parent.links {
		shown := path.Join(prefix, at.path)
		refuse := func(err error, advice string) error {
			return &Error{Reason: ReasonOperationFailed, Doing: fmt.Sprintf("fetch submodule %q of %s", shown, s.Revision), Err: err, Advice: advice}
		}
		if *budget--; *budget < 0 || depth == 0 {
			return refuse(fmt.Errorf("there are more than %d, or they are nested more than %d deep", maxSubmodules, maxSubmoduleDepth),
				"set spec.recurseSubmodules to false")
		}
		i := slices.IndexFunc(modules, func(m *config.Submodule) bool { return path.Clean(m.Path) == at.path })
		if i < 0 {
			return refuse(errors.New(".gitmodules says nothing of it"), "correct it in the repository")
		}
		remote, err := r.submodule(modules[i].URL)
		if err != nil {
			return refuse(err, "correct its URL in .gitmodules")
		}
		child, err := s.addSubmodule(ctx, remote, at, shown)
		if err != nil {
			return fmt.Errorf("submodule %q: %w", shown, err)
		}
		if err := s.addSubmodules(ctx, remote, child, shown, depth-1, budget); err != nil {
			return err
		}
	}
	return nil
}

// addSubmodule fetches one submodule and adds its files.
func (s *Snapshot) addSubmodule(ctx context.Context, r *Remote, at link, shown string) (fetchedCommit, error) {
	store, err := r.newStore()
	if err != nil {
		return fetchedCommit{}, err
	}
	s.stores = append(s.stores, store)
	wanted := Reference{Commit: at.commit.String()}
	commit, err := r.getCommit(ctx, wanted, store.Storage)
	if err != nil {
		return fetchedCommit{}, err
	}
	child, err := readTree(ctx, store.Storage, commit, s.Tree, shown)
	if err != nil {
		return fetchedCommit{}, &Error{Reason: ReasonOperationFailed, Doing: fmt.Sprintf("read %s of %s", wanted, r.address), Err: err}
	}
	return child, nil
}

// submodule is the remote of a submodule, whose URL may be relative to that of the repository that it is in.
func (r *Remote) submodule(raw string) (*Remote, error) {
	base, err := url.Parse(r.address)
	if err != nil {
		return nil, fmt.Errorf("parse the URL of its repository: %w", err)
	}
	var u *url.URL
	if strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../") {
		joined := *base
		joined.Path = path.Join(base.Path, raw)
		u = &joined
	} else if u, err = parseURL(scpToURL(raw)); err != nil {
		return nil, err
	}
	auth := r.auth
	sameServer := u.Scheme == base.Scheme && u.Host == base.Host
	if sameServer && u.User == nil && r.auth.Username != "" && u.Scheme == "ssh" {
		u.User = url.User(r.auth.Username)
	}
	if !sameServer && (u.Scheme != "ssh" || base.Scheme != "ssh") {
		auth = Auth{Proxy: r.auth.Proxy}
	}
	return NewRemote(u.String(), auth, r.tempDir)
}

// scpToURL writes the form user@host:path as a URL.
func scpToURL(raw string) string {
	before, after, ok := strings.Cut(raw, ":")
	if !ok || strings.Contains(before, "/") || strings.HasPrefix(after, "//") || strings.HasPrefix(after, ":") {
		return raw
	}
	return "ssh://" + before + "/" + strings.TrimPrefix(after, "/")
}

// fetchedCommit is a commit in an object store, and the submodules in its tree.
type fetchedCommit struct {
	commit *object.Commit
	links  []link
}

// modules reads .gitmodules.
func (c fetchedCommit) modules() (_ []*config.Submodule, err error) {
	file, err := c.commit.File(".gitmodules")
	if err != nil {
		return nil, err
	}
	content, err := file.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	text, err := io.ReadAll(io.LimitReader(content, maxModulesFile))
	if err != nil {
		return nil, err
	}
	modules := config.NewModules()
	if err := modules.Unmarshal(text); err != nil {
		return nil, err
	}
	out := make([]*config.Submodule, 0, len(modules.Submodules))
	for _, m := range modules.Submodules {
		out = append(out, m)
	}
	return out, nil
}
