package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	extension = ".tar.gz"
	// temporaryPrefix marks files that are being written. They are never served.
	temporaryPrefix = ".writing-"
)

// Slot is the place of one source in the store.
type Slot struct {
	Kind, Namespace, Name string
}

func (s Slot) dir() string { return path.Join(strings.ToLower(s.Kind), s.Namespace, s.Name) }

// Holds tells whether a path of an artifact is in the slot.
func (s Slot) Holds(artifactPath string) bool { return path.Dir(artifactPath) == s.dir() }

// Store keeps artifacts in a directory. It opens nothing outside of it, whatever a path or link says.
type Store struct {
	root *os.Root
	host atomic.Pointer[string]
}

// OpenStore opens the directory, and creates it when it does not exist. What it holds is kept.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create artifact storage: %w; set --storage-path to a writable directory", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifact storage: %w; set --storage-path to a writable directory", err)
	}
	return &Store{root: root}, nil
}

// Close lets go of the directory.
func (s *Store) Close() error { return s.root.Close() }

// Advertise sets the host that URLs of artifacts carry, with the port unless it is the default one.
func (s *Store) Advertise(host string) { s.host.Store(&host) }

// URL is the address of an artifact.
func (s *Store) URL(artifactPath string) string {
	host := ""
	if h := s.host.Load(); h != nil {
		host = *h
	}
	return "http://" + host + "/" + artifactPath
}

// Publication is what is to be published.
type Publication struct {
	Slot Slot
	// Name is the name of the file without extension, usually a commit.
	Name string
	// Revision is what the status calls it.
	Revision string
	// Files are the files of the artifact, as Tree.Files lists them.
	Files []File
}

// Publish writes an artifact. The file appears under its path only after the whole of it was written, hashed and
// brought to disk; a failure or crash before that leaves what was there before.
func (s *Store) Publish(ctx context.Context, p Publication) (_ *meta.Artifact, err error) {
	dir := p.Slot.dir()
	if err := s.root.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create directory for artifact %s: %w", dir, err)
	}
	temporary := path.Join(dir, temporaryPrefix+rand.Text())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove(temporary))
		}
	}()
	digest, size, err := s.write(ctx, temporary, p.Files)
	if err != nil {
		return nil, fmt.Errorf("write artifact for revision %s: %w", p.Revision, err)
	}
	final := path.Join(dir, p.Name+extension)
	if err := s.root.Rename(temporary, final); err != nil {
		return nil, fmt.Errorf("publish artifact %s: %w", final, err)
	}
	if err := s.syncDir(dir); err != nil {
		return nil, fmt.Errorf("publish artifact %s: %w", final, err)
	}
	return &meta.Artifact{
		Path: final, URL: s.URL(final), Revision: p.Revision, Digest: digest, Size: &size,
		LastUpdateTime: metav1.Now(),
	}, nil
}

func (s *Store) write(ctx context.Context, name string, files []File) (digest string, size int64, err error) {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	counted := &counter{w: io.MultiWriter(f, sum)}
	if err := writeArchive(ctx, counted, files); err != nil {
		return "", 0, err
	}
	if err := f.Sync(); err != nil {
		return "", 0, err
	}
	return formatDigest(sum), counted.n, nil
}

// Verify tells whether the file of an artifact is there, whole and unchanged: nil, ErrNotFound, *DigestMismatch, or
// the error of reading it.
func (s *Store) Verify(a *meta.Artifact) error {
	if a == nil {
		return ErrNotFound
	}
	digest, err := newDigester(a.Digest)
	if err != nil {
		return err
	}
	f, err := s.root.Open(a.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("verify artifact %s: %w", a.Path, err)
	}
	defer f.Close() // nothing was written, so there is nothing that closing could lose
	if _, err := io.Copy(digest, f); err != nil {
		return fmt.Errorf("verify artifact %s: %w", a.Path, err)
	}
	return digest.verify()
}

// Retire starts the time to live of an artifact that was replaced, so that whoever is fetching it can finish.
func (s *Store) Retire(artifactPath string) error {
	now := time.Now()
	if err := s.root.Chtimes(artifactPath, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("retire artifact %s: %w", artifactPath, err)
	}
	return nil
}

// Remove deletes all artifacts of a source.
func (s *Store) Remove(slot Slot) error {
	if err := s.root.RemoveAll(slot.dir()); err != nil {
		return fmt.Errorf("remove artifacts %s: %w", slot.dir(), err)
	}
	// The namespace's directory goes with its last source; while others are in it this fails, as it should.
	_ = s.root.Remove(path.Dir(slot.dir()))
	return nil
}

func (s *Store) remove(name string) error {
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func (s *Store) syncDir(dir string) (err error) {
	d, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
