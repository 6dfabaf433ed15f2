package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/fluxcd/pkg/apis/meta"
)

// Local makes artifacts out of a directory on this machine, as a source of it would: without what the ignore patterns leave out, and
// without the data of Git. Files count whether they are committed or not.
type Local struct {
	// Dir is the directory.
	Dir string
	// Ignore are the patterns of the source, nil for its defaults.
	Ignore *string
}

// Fetch puts the files into dir, which is created when it does not exist and must be empty. The artifact only names the revision.
func (l Local) Fetch(ctx context.Context, a *meta.Artifact, dir string) (err error) {
	root, err := os.OpenRoot(l.Dir)
	if err != nil {
		return fmt.Errorf("read the directory: %w", err)
	}
	defer root.Close() // nothing was written
	tree, err := localTree(root)
	if err != nil {
		return fmt.Errorf("read %s: %w", l.Dir, err)
	}
	return tree.checkOut(ctx, l.Ignore, a.Revision, dir)
}

// checkOut writes what of a tree a source publishes to a directory, by the same way as an artifact goes.
func (t *Tree) checkOut(ctx context.Context, ignored *string, revision, dir string) (err error) {
	ignore, err := t.Ignore(ignored)
	if err != nil {
		return err
	}
	files, err := t.Files(ignore)
	if err != nil {
		return err
	}
	storage, err := os.MkdirTemp("", "plan-*")
	if err != nil {
		return fmt.Errorf("create a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(storage)) }()
	store, err := OpenStore(storage)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	stored, err := store.Publish(ctx, Publication{Slot: Slot{Kind: "plan", Namespace: "local", Name: "local"}, Name: "files", Revision: revision, Files: files})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create a temporary directory: %w", err)
	}
	return store.Unpack(ctx, stored, dir)
}

// CheckOut is a Fetcher of the tree that a function gives. It is asked for once for each Fetch.
type CheckOut struct {
	// Tree returns the files, what their source ignores, and what lets go of them.
	Tree func(context.Context) (tree *Tree, ignore *string, done func() error, err error)
}

// Fetch puts the files into dir.
func (c CheckOut) Fetch(ctx context.Context, a *meta.Artifact, dir string) (err error) {
	tree, ignore, done, err := c.Tree(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	return tree.checkOut(ctx, ignore, a.Revision, dir)
}

// localTree lists the files and links of a directory. They are read when the tree is.
func localTree(root *os.Root) (*Tree, error) {
	tree := NewTree()
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path.Base(name) == ".git" && d.IsDir():
			return fs.SkipDir
		case path.Base(name) == ".git", d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := root.Readlink(filepath.FromSlash(name))
			if err != nil {
				return err
			}
			return tree.Add(name, LinkEntry(filepath.ToSlash(target)))
		case !d.Type().IsRegular():
			return nil // a socket or a pipe, which Git does not know either
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return tree.Add(name, Entry{Size: info.Size(), Executable: info.Mode()&0o111 != 0,
			Open: func() (io.ReadCloser, error) { return root.Open(filepath.FromSlash(name)) }})
	})
	return tree, err
}
