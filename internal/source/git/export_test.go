package git

import (
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// Commits counts the commits that were fetched.
func (s *Snapshot) Commits(t *testing.T) int {
	t.Helper()
	commits, err := s.stores[0].IterEncodedObjects(plumbing.CommitObject)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	// Counting can't fail.
	_ = commits.ForEach(func(plumbing.EncodedObject) error { n++; return nil })
	return n
}
