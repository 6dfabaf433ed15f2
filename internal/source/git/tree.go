package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
)

// maxTarget bounds what is read as the target of a link; operating systems allow no more.
const maxTarget = 4096

// readTree adds the files of a commit to a tree, below a prefix. An object that is missing is an error here, and not a file
// less. Submodules are listed and no more: the spec says whether they are wanted.
func readTree(ctx context.Context, s *filesystem.Storage, commit *object.Commit, tree *artifact.Tree, prefix string) (fetchedCommit, error) {
	out := fetchedCommit{commit: commit}
	root, err := commit.Tree()
	if err != nil {
		return out, fmt.Errorf("read tree: %w", err)
	}
	walker := object.NewTreeWalker(root, true, nil)
	defer walker.Close()
	for {
		name, found, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("read tree: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return out, fmt.Errorf("read tree: %w", err)
		}
		switch found.Mode {
		case filemode.Dir:
			continue // directories are implied
		case filemode.Submodule:
			out.links = append(out.links, link{path: name, commit: found.Hash})
			continue
		}
		e, err := entry(s, found)
		if err != nil {
			return out, fmt.Errorf("read %q: %w", name, err)
		}
		if err := tree.Add(path.Join(prefix, name), e); err != nil {
			return out, err
		}
	}
}

func entry(s *filesystem.Storage, found object.TreeEntry) (artifact.Entry, error) {
	size, err := s.EncodedObjectSize(found.Hash)
	if err != nil {
		return artifact.Entry{}, err
	}
	if found.Mode == filemode.Symlink {
		target, err := readLink(s, found.Hash, size)
		return artifact.Entry{Target: target}, err
	}
	hash := found.Hash
	return artifact.Entry{
		Size:       size,
		Executable: found.Mode == filemode.Executable,
		Open:       func() (io.ReadCloser, error) { return open(s, hash) },
	}, nil
}

func readLink(s *filesystem.Storage, hash plumbing.Hash, size int64) (target string, err error) {
	if size > maxTarget {
		return "", errors.New("the target of the link is too long; remove the link from the repository")
	}
	content, err := open(s, hash)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	text, err := io.ReadAll(content)
	return string(text), err
}

func open(s *filesystem.Storage, hash plumbing.Hash) (io.ReadCloser, error) {
	blob, err := object.GetBlob(s, hash)
	if err != nil {
		return nil, err
	}
	return blob.Reader()
}
