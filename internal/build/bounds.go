package build

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-gitops/holdfast/internal/alias"
)

// maxRead is how much a build may read of the artifact, each file counted once. Kustomize holds all of it in memory, many times over.
const maxRead = 64 << 20

// BoundsError says that a build would take more memory than one tenant may take from all others.
type BoundsError struct {
	// File is the first that is too much.
	File string
	// Problem in words.
	Problem string
}

// Error names the file and the bound.
func (e *BoundsError) Error() string {
	return fmt.Sprintf("kustomize build failed: %s: %s", e.File, e.Problem)
}

// bounds is what a build has read so far.
type bounds struct {
	root  string
	seen  map[string]bool
	read  int64
	added int64
	// first is the error that ended the build: kustomize wraps it in what it tried after that.
	first error
}

func newBounds(root string) *bounds { return &bounds{root: root, seen: map[string]bool{}} }

// size refuses a file before it is read.
func (b *bounds) size(path string) error {
	if b.first != nil {
		return b.first
	}
	info, err := os.Stat(path)
	if err != nil || b.seen[path] {
		return nil // whoever reads it tells what is wrong
	}
	if b.read+info.Size() > maxRead {
		return b.refuse(path, fmt.Sprintf("the files of a build are limited to %d MiB in all", maxRead>>20))
	}
	return nil
}

// content counts a file and looks at its aliases.
func (b *bounds) content(path string, data []byte) error {
	if b.first != nil || b.seen[path] {
		return b.first
	}
	b.seen[path] = true
	b.read += int64(len(data))
	return b.aliases(path, data)
}

// aliases looks at the aliases of a text.
func (b *bounds) aliases(path string, data []byte) error {
	added, err := alias.Check(data)
	if b.added += added; err == nil && b.added > alias.Max {
		err = alias.ErrTooMany
	}
	if err != nil {
		return b.refuse(path, err.Error())
	}
	return nil
}

func (b *bounds) refuse(path, problem string) error {
	b.first = &BoundsError{File: relative(b.root, path), Problem: problem}
	return b.first
}

// manifests looks at what is read where there is no kustomization file, before the generator reads it by itself.
func (b *bounds) manifests(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		extension := filepath.Ext(path)
		if err != nil || entry.IsDir() || extension != ".yaml" && extension != ".yml" {
			return nil //nolint:nilerr // the generator reports what it can't read
		}
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil || !within(b.root, resolved) {
			return nil //nolint:nilerr // reported as a link that leads nowhere, or out of the artifact
		}
		if err := b.size(path); err != nil {
			return err
		}
		data, err := os.ReadFile(resolved)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		return b.content(path, data)
	})
}
