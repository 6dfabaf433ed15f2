package artifact

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"
	"github.com/fluxcd/pkg/sourceignore/gitignore"
)

// maxIgnoreFile bounds one .sourceignore file.
const maxIgnoreFile = 1 << 20

// Ignore tells which paths stay out of an artifact. The zero value excludes nothing.
type Ignore struct {
	matcher gitignore.Matcher
}

// Match tells whether a file is excluded.
func (i Ignore) Match(at []string) bool { return i.matcher != nil && i.matcher.Match(at, false) }

// MatchDir tells whether a directory is excluded.
func (i Ignore) MatchDir(at []string) bool { return i.matcher != nil && i.matcher.Match(at, true) }

// Ignore returns the exclusions of the tree: those of its .sourceignore files and then those of spec, which win. Git's
// own files are always excluded. Media, archives and the configuration of build services are only excluded when
// neither says anything, as in Flux.
func (t *Tree) Ignore(spec *string) (Ignore, error) {
	patterns, err := loadPatterns([]*node{&t.root}, nil)
	if err != nil {
		return Ignore{}, err
	}
	if spec != nil {
		patterns = append(patterns, sourceignore.ReadPatterns(strings.NewReader(*spec), nil)...)
	}
	if len(patterns) == 0 {
		return Ignore{matcher: sourceignore.NewDefaultMatcher(nil, nil)}, nil
	}
	return Ignore{matcher: sourceignore.NewMatcher(append(sourceignore.VCSPatterns(nil), patterns...))}, nil
}

// loadPatterns reads the ignore files from a directory down. Those further down come later, and so win.
func loadPatterns(location []*node, at []string) ([]gitignore.Pattern, error) {
	patterns, err := readPatterns(location, at)
	if err != nil {
		return nil, err
	}
	dir := location[len(location)-1]
	for _, name := range dir.sorted() {
		child := dir.children[name]
		if !child.isDir() {
			continue
		}
		below, err := loadPatterns(append(slices.Clip(location), child), append(slices.Clip(at), name))
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, below...)
	}
	return patterns, nil
}

func readPatterns(location []*node, at []string) ([]gitignore.Pattern, error) {
	file := location[len(location)-1].children[sourceignore.IgnoreFile]
	if file == nil || file.isDir() {
		return nil, nil
	}
	name := path.Join(append(slices.Clip(at), sourceignore.IgnoreFile)...)
	if file.isLink() {
		hops := maxHops
		found, err := follow(location, file.entry.Target, &hops)
		if err != nil {
			return nil, &LinkError{Path: name, Target: file.entry.Target, Err: err}
		}
		if file = found[len(found)-1]; file.isDir() {
			return nil, nil
		}
	}
	content, err := file.entry.Open()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer content.Close() // nothing was written, so there is nothing that closing could lose
	text, err := io.ReadAll(io.LimitReader(content, maxIgnoreFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxIgnoreFile {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes; shorten it", name, maxIgnoreFile)
	}
	return sourceignore.ReadPatterns(strings.NewReader(string(text)), at), nil
}
