package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// abandonedAfter is the age at which a file that is still being written belongs to a process that died.
const abandonedAfter = time.Hour

// Retention bounds what is kept of replaced artifacts. The current one is always kept.
type Retention struct {
	// TTL is how long a replaced artifact is kept; zero sets no limit.
	TTL time.Duration
	// Records is how many artifacts are kept, with the current one; zero sets no limit.
	Records int
	// Now is the time to count from.
	Now time.Time
}

// Collect deletes replaced artifacts of a source that are too old or too many, and what crashed writers left. current
// is the path of the artifact that the status names. It returns the paths that it deleted.
func (s *Store) Collect(slot Slot, current string, r Retention) ([]string, error) {
	entries, err := fs.ReadDir(s.root.FS(), slot.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list artifacts %s: %w", slot.dir(), err)
	}
	var records []record
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list artifacts %s: %w", slot.dir(), err)
		}
		records = append(records, record{path: path.Join(slot.dir(), e.Name()), since: info.ModTime()})
	}
	var deleted []string
	for _, name := range garbage(records, current, r) {
		if err := s.remove(name); err != nil {
			return deleted, err
		}
		deleted = append(deleted, name)
	}
	return deleted, nil
}

// record is a file of a source, and since when it is what it is: written, or replaced.
type record struct {
	path  string
	since time.Time
}

// garbage picks what may go. Newer records are kept in preference to older ones.
func garbage(records []record, current string, r Retention) []string {
	var out []string
	kept := 0
	if slices.ContainsFunc(records, func(x record) bool { return x.path == current }) {
		kept = 1
	}
	slices.SortFunc(records, func(a, b record) int {
		if c := b.since.Compare(a.since); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	for _, x := range records {
		age := r.Now.Sub(x.since)
		switch {
		case x.path == current:
		case strings.HasPrefix(path.Base(x.path), temporaryPrefix):
			if age > abandonedAfter {
				out = append(out, x.path)
			}
		case !strings.HasSuffix(x.path, extension):
			// Not written by the store, so not the store's to delete.
		case r.TTL > 0 && age > r.TTL, r.Records > 0 && kept >= r.Records:
			out = append(out, x.path)
		default:
			kept++
		}
	}
	return out
}
