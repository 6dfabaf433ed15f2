package artifact

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Bounds on what links may unfold to. Links to directories can double a tree with each step.
const (
	maxHops    = 40
	maxVisited = 500_000
	maxRefused = 10
)

// Why a link is refused.
var (
	ErrLinkOutside  = errors.New("it leads out of the repository")
	ErrLinkDangling = errors.New("nothing is there")
	ErrLinkLoop     = errors.New("it leads back to itself")
)

// LinkError names a link that can't be followed.
type LinkError struct {
	Path, Target string
	Err          error
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("follow link %q to %q: %v; mend the link or exclude it in .sourceignore or spec.ignore", e.Path, e.Target, e.Err)
}

func (e *LinkError) Unwrap() error { return e.Err }

// File is a file of an artifact.
type File struct {
	Path string
	*Entry
}

// Files lists what an artifact of the tree holds: every file that is not ignored, sorted by path, with links replaced
// by what they point at. Links that can't be followed are named in the error, unless they are ignored.
func (t *Tree) Files(ignore Ignore) ([]File, error) {
	u := unfolding{ignore: ignore}
	u.walk([]*node{&t.root}, nil, []*node{&t.root})
	if u.visited > maxVisited {
		return nil, fmt.Errorf("follow links: they unfold to more than %d files; exclude some in .sourceignore or spec.ignore", maxVisited)
	}
	if len(u.refused) > 0 {
		return nil, errors.Join(u.refused...)
	}
	slices.SortFunc(u.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return u.files, nil
}

// unfolding is one walk over a tree.
type unfolding struct {
	ignore  Ignore
	files   []File
	refused []error
	visited int
}

// walk lists the directory at the end of location, which is the way to it from the root without links. shown is the
// path under which it appears in the artifact, and inside are the directories that the walk is in: meeting one of them
// again through a link would never end.
func (u *unfolding) walk(location []*node, shown []string, inside []*node) {
	dir := location[len(location)-1]
	for _, name := range dir.sorted() {
		if u.visited++; u.visited > maxVisited {
			return
		}
		child := dir.children[name]
		at := append(slices.Clip(shown), name)
		switch {
		case child.isDir():
			u.walk(append(slices.Clip(location), child), at, append(slices.Clip(inside), child))
		case child.isLink():
			u.link(location, child, at, inside)
		default:
			u.file(child, at)
		}
	}
}

func (u *unfolding) file(n *node, at []string) {
	if !u.ignore.Match(at) {
		u.files = append(u.files, File{Path: path.Join(at...), Entry: n.entry})
	}
}

func (u *unfolding) link(location []*node, n *node, at []string, inside []*node) {
	if u.ignore.Match(at) || u.ignore.MatchDir(at) {
		return
	}
	hops := maxHops
	found, err := follow(location, n.entry.Target, &hops)
	if err != nil {
		u.refuse(n, at, err)
		return
	}
	target := found[len(found)-1]
	switch {
	case !target.isDir():
		u.file(target, at)
	case slices.Contains(inside, target):
		u.refuse(n, at, ErrLinkLoop)
	default:
		u.walk(found, at, append(slices.Clip(inside), target))
	}
}

func (u *unfolding) refuse(n *node, at []string, err error) {
	if len(u.refused) < maxRefused {
		u.refused = append(u.refused, &LinkError{Path: path.Join(at...), Target: n.entry.Target, Err: err})
	}
}

// follow walks from a directory to where a link target leads, as an operating system would: step by step, so that
// ".." after a link means the parent of what the link points at.
func follow(location []*node, target string, hops *int) ([]*node, error) {
	if *hops--; *hops < 0 {
		return nil, ErrLinkLoop
	}
	if path.IsAbs(target) {
		return nil, ErrLinkOutside
	}
	for step := range strings.SplitSeq(target, "/") {
		here := location[len(location)-1]
		if !here.isDir() {
			return nil, ErrLinkDangling
		}
		switch step {
		case "", ".":
			continue
		case "..":
			if len(location) == 1 {
				return nil, ErrLinkOutside
			}
			location = location[:len(location)-1]
			continue
		}
		child := here.children[step]
		if child == nil {
			return nil, ErrLinkDangling
		}
		if !child.isLink() {
			location = append(slices.Clip(location), child)
			continue
		}
		var err error
		if location, err = follow(location, child.entry.Target, hops); err != nil {
			return nil, err
		}
	}
	return location, nil
}
