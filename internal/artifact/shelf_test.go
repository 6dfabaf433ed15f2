package artifact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
)

// fetchFunc is a Fetcher.
type fetchFunc func(ctx context.Context, a *meta.Artifact, dir string) error

func (f fetchFunc) Fetch(ctx context.Context, a *meta.Artifact, dir string) error {
	return f(ctx, a, dir)
}

// newTestShelf is a shelf in a directory of its own whose copies hold one file, and a count of how often something was fetched.
func newTestShelf(t *testing.T, idle time.Duration) (*Shelf, *atomic.Int32) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	fetched := &atomic.Int32{}
	s := NewShelf(fetchFunc(func(_ context.Context, a *meta.Artifact, dir string) error {
		fetched.Add(1)
		if err := os.Mkdir(dir, 0o750); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(a.Digest), 0o600)
	}))
	s.Idle = idle
	return s, fetched
}

func mustOpen(t *testing.T, s *Shelf, a *meta.Artifact) (string, func()) {
	t.Helper()
	dir, done, err := s.Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "a.yaml")); err != nil || string(content) != a.Digest {
		t.Fatalf("the copy holds %q, %v", content, err)
	}
	return dir, done
}

func copiesLeft(t *testing.T) int {
	t.Helper()
	left, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return len(left)
}

// Whoever asks for an artifact while others do, or soon after, shares their copy; another artifact is another copy.
func TestShelfShares(t *testing.T) {
	s, fetched := newTestShelf(t, time.Hour)
	one, two := &meta.Artifact{Digest: "sha256:1", URL: "u"}, &meta.Artifact{Digest: "sha256:2", URL: "u"}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			a := one
			if i%2 == 0 {
				a = two
			}
			dir, done, err := s.Open(t.Context(), a)
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			if content, err := os.ReadFile(filepath.Join(dir, "a.yaml")); err != nil || string(content) != a.Digest {
				t.Errorf("%q, %v", content, err)
			}
		})
	}
	wg.Wait()
	if n := fetched.Load(); n != 2 {
		t.Errorf("fetched %d times, want 2", n)
	}
	elsewhere := &meta.Artifact{Digest: "sha256:1", URL: "another"}
	if _, done := mustOpen(t, s, elsewhere); fetched.Load() != 3 {
		t.Error("what one address offers was handed out for another one")
	} else {
		done()
	}
}

// A copy goes when nobody has used it for a while, and not before its last user has left.
func TestShelfRemovesWhatNobodyUses(t *testing.T) {
	s, _ := newTestShelf(t, time.Millisecond)
	a := &meta.Artifact{Digest: "sha256:1", URL: "u"}
	_, first := mustOpen(t, s, a)
	dir, second := mustOpen(t, s, a)
	first()
	first() // once more has no effect
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the copy went under a user: %v", err)
	}
	second()
	for copiesLeft(t) > 0 { // the end of the test is the limit
		time.Sleep(time.Millisecond)
	}
}

// Only a few copies wait for another user.
func TestShelfIsBounded(t *testing.T) {
	s, _ := newTestShelf(t, time.Hour)
	for i := range 3 * maxIdle {
		_, done := mustOpen(t, s, &meta.Artifact{Digest: string(rune('a' + i)), URL: "u"})
		done()
	}
	if n := copiesLeft(t); n != maxIdle {
		t.Errorf("%d copies are left, want %d", n, maxIdle)
	}
}

// A copy that is old, or that something else removed, is made anew; who has the old one keeps it.
func TestShelfMakesAnew(t *testing.T) {
	s, fetched := newTestShelf(t, time.Hour)
	now := time.Now()
	s.now = func() time.Time { return now }
	a := &meta.Artifact{Digest: "sha256:1", URL: "u"}
	old, done := mustOpen(t, s, a)
	now = now.Add(shelfAge)
	dir, doneToo := mustOpen(t, s, a)
	if dir == old || fetched.Load() != 2 {
		t.Errorf("fetched %d times, want 2", fetched.Load())
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("the old copy went under its user: %v", err)
	}
	done()
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old copy is still there: %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	_, last := mustOpen(t, s, a)
	doneToo()
	last()
}

// What failed is tried again for the next one who asks. Who waits for a copy that is not made, because its maker gave up, makes it.
func TestShelfFailures(t *testing.T) {
	s, fetched := newTestShelf(t, time.Hour)
	a := &meta.Artifact{Digest: "sha256:1", URL: "u"}
	works := s.fetcher
	broken := errors.New("broken")
	s.fetcher = fetchFunc(func(context.Context, *meta.Artifact, string) error { return broken })
	if _, _, err := s.Open(t.Context(), a); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	started := make(chan struct{})
	s.fetcher = fetchFunc(func(ctx context.Context, _ *meta.Artifact, _ string) error {
		close(started)
		<-ctx.Done()
		s.fetcher = works
		return ctx.Err()
	})
	hasty, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := s.Open(hasty, a)
		ended <- err
	}()
	<-started
	patient := make(chan error, 1)
	go func() {
		_, done, err := s.Open(t.Context(), a)
		if err == nil {
			done()
		}
		patient <- err
	}()
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := <-patient; err != nil || fetched.Load() != 1 {
		t.Errorf("%v, fetched %d times", err, fetched.Load())
	}
	if n := copiesLeft(t); n != 1 {
		t.Errorf("%d directories are left, want the one good copy", n)
	}
}

func TestShelfWithoutADirectory(t *testing.T) {
	s, _ := newTestShelf(t, 0)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	var want *DirectoryError
	if _, _, err := s.Open(t.Context(), &meta.Artifact{Digest: "sha256:1"}); !errors.As(err, &want) {
		t.Errorf("%v", err)
	}
	if _, _, err := s.Open(t.Context(), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}
