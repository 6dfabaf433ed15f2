package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
)

// The bounds of a Shelf.
const (
	// shelfIdle is how long a copy that nobody uses stays, and maxIdle how many of them.
	shelfIdle = 10 * time.Second
	maxIdle   = 4
	// shelfAge is how old a copy may become before it is made anew. Something else may clean up among temporary files, and a
	// tree with a file less renders to fewer objects.
	shelfAge = 5 * time.Minute
)

// Shelf hands out unpacked artifacts. Those who ask for the same one at the same time, or soon after each other, share one
// copy: nobody may write to it.
type Shelf struct {
	// Idle is how long a copy that nobody uses stays; with none it goes with its last user. It is set before the first use.
	Idle time.Duration

	fetcher Fetcher
	now     func() time.Time

	mu     sync.Mutex
	copies map[string]*unpacked
}

// unpacked is one copy of an artifact.
type unpacked struct {
	key  string
	made time.Time
	// ready is closed when the copy is complete, or err says why it never will be. Cut is true when whoever made it gave up.
	ready chan struct{}
	dir   string
	err   error
	cut   bool
	// users are those who work with it or wait for it; unused is when the last one left.
	users  int
	unused time.Time
}

// DirectoryError says that there is no place for a copy.
type DirectoryError struct{ Err error }

func (e *DirectoryError) Error() string {
	return fmt.Sprintf("create a temporary directory for the artifact: %v; "+
		"the controller needs one that it can write to, which the environment variable TMPDIR names", e.Err)
}

func (e *DirectoryError) Unwrap() error { return e.Err }

// Fetcher puts the content of an artifact into a directory; *Reader does.
type Fetcher interface {
	Fetch(ctx context.Context, a *meta.Artifact, dir string) error
}

// NewShelf returns a shelf for what the fetcher gets.
func NewShelf(f Fetcher) *Shelf {
	return &Shelf{fetcher: f, Idle: shelfIdle, now: time.Now, copies: map[string]*unpacked{}}
}

// Open returns the directory with the content of an artifact, which stays until done is called. Besides the errors of
// Reader.Fetch there is *DirectoryError.
func (s *Shelf) Open(ctx context.Context, a *meta.Artifact) (dir string, done func(), err error) {
	if a == nil {
		return "", nil, fmt.Errorf("fetch artifact: the source has none: %w", ErrNotFound)
	}
	for {
		c, isNew := s.take(a)
		if isNew {
			s.fill(ctx, a, c)
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			s.leave(c)
			return "", nil, fmt.Errorf("fetch artifact %s: %w", a.URL, ctx.Err())
		}
		if c.err == nil {
			return c.content(), sync.OnceFunc(func() { s.leave(c) }), nil
		}
		s.leave(c)
		if isNew || !c.cut {
			return "", nil, c.err
		}
	}
}

// take joins the users of a copy, or makes a new one that the caller has to fill.
func (s *Shelf) take(a *meta.Artifact) (c *unpacked, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := a.Digest + " " + a.URL
	if c := s.copies[key]; c != nil && s.now().Sub(c.made) < shelfAge && c.isThere() {
		c.users++
		return c, false
	}
	c = &unpacked{key: key, made: s.now(), ready: make(chan struct{}), users: 1}
	s.forget(s.copies[key])
	s.copies[key] = c
	return c, true
}

// forget hands a copy out to nobody any more. It goes with its last user.
func (s *Shelf) forget(c *unpacked) {
	if c == nil || s.copies[c.key] != c {
		return
	}
	delete(s.copies, c.key)
	if c.users == 0 {
		c.remove()
	}
}

// fill fetches the content. A copy that failed is handed out to nobody else.
func (s *Shelf) fill(ctx context.Context, a *meta.Artifact, c *unpacked) {
	defer close(c.ready)
	if c.dir, c.err = os.MkdirTemp("", "kustomization-"); c.err != nil {
		c.err = &DirectoryError{Err: withoutPath(c.err)}
	} else {
		c.err = s.fetcher.Fetch(ctx, a, c.content())
	}
	c.cut = c.err != nil && ctx.Err() != nil
	if c.err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(c)
	}
}

// leave ends one use. A copy without users is kept for a while, if it is still handed out.
func (s *Shelf) leave(c *unpacked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	if s.copies[c.key] != c {
		c.remove()
		return
	}
	if s.Idle <= 0 {
		s.forget(c)
		return
	}
	c.unused = s.now()
	time.AfterFunc(s.Idle, func() { s.expire(c) })
	s.trim()
}

// expire drops a copy that nobody has used for long enough. One that was used meanwhile has another timer.
func (s *Shelf) expire(c *unpacked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users == 0 && s.now().Sub(c.unused) >= s.Idle {
		s.forget(c)
	}
}

// trim drops the copies that were not used for longest.
func (s *Shelf) trim() {
	for {
		var oldest *unpacked
		idle := 0
		for _, c := range s.copies {
			if c.users > 0 {
				continue
			}
			idle++
			if oldest == nil || c.unused.Before(oldest.unused) {
				oldest = c
			}
		}
		if idle <= maxIdle {
			return
		}
		s.forget(oldest)
	}
}

// content is where the artifact is unpacked.
func (c *unpacked) content() string { return filepath.Join(c.dir, "artifact") }

// isThere tells whether nobody removed a complete copy.
func (c *unpacked) isThere() bool {
	select {
	case <-c.ready:
		_, err := os.Stat(c.content())
		return err == nil
	default:
		return true
	}
}

// remove removes the files. What is left of them when that fails lies in the temporary directory.
func (c *unpacked) remove() {
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
}

// withoutPath is a fault of the file system without the directories of the controller's machine, which are no tenant's business.
func withoutPath(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
