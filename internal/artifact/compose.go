package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
)

// Only returns a tree with nothing but the given directories, or files, of this one. One that is not there is an error.
func (t *Tree) Only(paths []string) (*Tree, error) {
	out := NewTree()
	var taken [][]string
	for _, wanted := range slices.Sorted(slices.Values(paths)) {
		names := split(wanted)
		if len(names) == 0 {
			return t, nil
		}
		found := t.root.find(names)
		if found == nil {
			return nil, fmt.Errorf("take %q out of the source tree: nothing is there; correct spec.sparseCheckout or add it to the repository", wanted)
		}
		// What lies in a directory that was taken is there already. In sorted order the directory comes first.
		if slices.ContainsFunc(taken, func(dir []string) bool { return len(dir) <= len(names) && slices.Equal(dir, names[:len(dir)]) }) {
			continue
		}
		taken = append(taken, names)
		dir := &out.root
		for _, name := range names[:len(names)-1] {
			if dir.children[name] == nil {
				dir.children[name] = &node{children: map[string]*node{}}
			}
			dir = dir.children[name]
		}
		dir.children[names[len(names)-1]] = found
	}
	return out, nil
}

// split cuts a path into names. It can't lead out of the root: what would is cut off.
func split(p string) []string {
	cleaned := strings.TrimPrefix(path.Clean("/"+p), "/")
	if cleaned == "" {
		return nil
	}
	return strings.Split(cleaned, "/")
}

// find returns what is at a path without following links; nil when nothing is.
func (n *node) find(names []string) *node {
	for _, name := range names {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// Unpack proves that the file of an artifact is the one that is described, and unpacks it into an empty directory.
func (s *Store) Unpack(ctx context.Context, a *meta.Artifact, dir string) error {
	if err := s.Verify(a); err != nil {
		return err
	}
	f, err := s.root.Open(a.Path)
	if err != nil {
		return fmt.Errorf("unpack artifact %s: %w", a.Path, err)
	}
	defer f.Close() // nothing was written, so there is nothing that closing could lose
	return unpack(ctx, f, dir, a.Digest, defaultMaxUnpacked)
}

// AddDir adds what lies at one path of a directory, which may be a file as well, to the tree at another. The files are read from
// the directory, which must stay as it is until the tree has been read.
func (t *Tree) AddDir(root *os.Root, from, to string) error {
	start := strings.Join(split(from), "/")
	if start == "" {
		start = "."
	}
	into := strings.Join(split(to), "/")
	err := fs.WalkDir(root.FS(), start, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		shown := path.Join(into, strings.TrimPrefix(strings.TrimPrefix(name, start), "/"))
		if start == "." {
			shown = path.Join(into, name)
		}
		return t.Add(shown, Entry{
			Size: info.Size(), Executable: info.Mode()&0o111 != 0,
			Open: func() (io.ReadCloser, error) { return root.Open(name) },
		})
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take %q out of the included artifact: nothing is there", from)
	}
	return err
}
