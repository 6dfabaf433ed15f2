package artifact

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Entry is a file or a symbolic link of a source.
type Entry struct {
	// Target is where a link points; empty for a file.
	Target string
	// Executable tells whether a file may be run.
	Executable bool
	// Size is the number of bytes that Open yields.
	Size int64
	// Open reads the content of a file.
	Open func() (io.ReadCloser, error)
}

// Tree is a set of files and links, by slash-separated path. Directories are implied.
type Tree struct {
	root node
}

// node is a directory when children is set, a file or link when entry is.
type node struct {
	entry    *Entry
	children map[string]*node
}

func (n *node) isDir() bool  { return n.entry == nil }
func (n *node) isLink() bool { return n.entry != nil && n.entry.Target != "" }

// NewTree returns an empty tree.
func NewTree() *Tree {
	return &Tree{root: node{children: map[string]*node{}}}
}

// Add puts an entry into the tree. A path that is not a plain relative one, or that is taken, is refused: a well-formed
// source has none, and guessing which entry is meant would make the artifact ambiguous.
func (t *Tree) Add(path string, e Entry) error {
	if !fs.ValidPath(path) || path == "." || strings.Contains(path, "\x00") {
		return fmt.Errorf("add %q to source tree: not a plain relative path; rename it in the repository", path)
	}
	if e.Target == "" && e.Open == nil {
		return fmt.Errorf("add %q to source tree: a link that points at nothing; remove it from the repository", path)
	}
	names := strings.Split(path, "/")
	dir := &t.root
	for _, name := range names[:len(names)-1] {
		child := dir.children[name]
		if child == nil {
			child = &node{children: map[string]*node{}}
			dir.children[name] = child
		}
		if !child.isDir() {
			return fmt.Errorf("add %q to source tree: %q is a file; rename one of them in the repository", path, name)
		}
		dir = child
	}
	last := names[len(names)-1]
	if dir.children[last] != nil {
		return fmt.Errorf("add %q to source tree: the path is there twice; rename one of them in the repository", path)
	}
	dir.children[last] = &node{entry: &e}
	return nil
}

// sorted returns the names in a directory in a stable order.
func (n *node) sorted() []string { return slices.Sorted(maps.Keys(n.children)) }

// open returns the content of a file that is held in memory.
func open(content string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
}

// TextEntry is a file with the given content.
func TextEntry(content string) Entry {
	return Entry{Size: int64(len(content)), Open: open(content)}
}

// LinkEntry is a symbolic link.
func LinkEntry(target string) Entry { return Entry{Target: target} }
