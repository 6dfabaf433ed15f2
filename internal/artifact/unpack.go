package artifact

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// trailerSize is the size of the two zero blocks that end a tar archive.
const trailerSize = 1024

// maxEntries is how many entries an archive may have. Empty files cost next to nothing in an archive, and a lot on a disk.
const maxEntries = 500_000

var (
	errTooMany    = fmt.Errorf("the archive has more than %d entries", maxEntries)
	errUnsafePath = errors.New("the path leads out of the archive")
	errEntryKind  = errors.New("hard links and special files are not allowed in an artifact")
	errNoTrailer  = errors.New("the end of the archive is missing")
	errTooLarge   = errors.New("the archive unpacks to more than is allowed")
)

// unpack writes the files of a tar.gz into an empty directory. The directory is opened as a root of its own, so that
// no entry can lead out of it; entries that try are refused all the same. After an error the directory is empty.
func unpack(ctx context.Context, archive io.Reader, dir, digest string, limit int64) (err error) {
	if err := requireEmpty(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack artifact: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := unpacking{ctx: ctx, root: root, digest: digest, left: limit, entries: maxEntries}
	if err := u.read(archive); err != nil {
		return errors.Join(err, empty(dir))
	}
	return nil
}

func requireEmpty(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("unpack artifact: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("unpack artifact: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("unpack artifact into %s: the directory is not empty; pass one that is", dir)
	}
	return nil
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clean up after unpacking: %w", err)
	}
	var failed []error
	for _, e := range entries {
		failed = append(failed, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(failed...)
}

// unpacking is one pass over an archive.
type unpacking struct {
	ctx    context.Context
	root   *os.Root
	digest string
	left   int64
	// entries is how many files, directories, and things that are passed over may follow.
	entries int
}

func (u *unpacking) read(archive io.Reader) error {
	zipped, err := gzip.NewReader(bufio.NewReader(archive))
	if err != nil {
		return &TruncatedError{Digest: u.digest, Err: err}
	}
	end := &tail{r: zipped}
	entries := tar.NewReader(end)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return u.finish(end)
		}
		if err != nil {
			return &TruncatedError{Digest: u.digest, Err: err}
		}
		if err := u.ctx.Err(); err != nil {
			return fmt.Errorf("unpack artifact %s: %w", u.digest, err)
		}
		if err := u.entry(header, entries); err != nil {
			return err
		}
	}
}

// finish reads to the end, which checks the sum that gzip keeps, and looks for the end mark of the archive: without
// it, an archive that was cut between two files would pass for a smaller one.
func (u *unpacking) finish(end *tail) error {
	n, err := io.Copy(io.Discard, io.LimitReader(end, u.left+1))
	if err != nil {
		return &TruncatedError{Digest: u.digest, Err: err}
	}
	if n > u.left {
		return &EntryError{Digest: u.digest, Path: "(end of archive)", Err: errTooLarge}
	}
	if !bytes.Equal(end.last, make([]byte, trailerSize)) {
		return &TruncatedError{Digest: u.digest, Err: errNoTrailer}
	}
	return nil
}

func (u *unpacking) entry(header *tar.Header, content io.Reader) error {
	refuse := func(err error) error { return &EntryError{Digest: u.digest, Path: header.Name, Err: err} }
	if u.entries--; u.entries < 0 {
		return refuse(errTooMany)
	}
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeDir:
	case tar.TypeXGlobalHeader:
		return nil // a comment, as git archive writes it
	case tar.TypeSymlink:
		if u.left -= header.Size; u.left < 0 {
			return refuse(errTooLarge)
		}
		return nil // left out, as in Flux; holdfast's own artifacts have none
	default:
		return refuse(errEntryKind)
	}
	if !filepath.IsLocal(header.Name) {
		return refuse(errUnsafePath)
	}
	name := path.Clean(header.Name)
	if header.Typeflag == tar.TypeDir {
		if err := u.root.MkdirAll(name, 0o750); err != nil {
			return refuse(err)
		}
		return nil
	}
	if u.left -= header.Size; u.left < 0 {
		return refuse(errTooLarge)
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o750); err != nil {
		return refuse(err)
	}
	return u.file(name, header, content)
}

func (u *unpacking) file(name string, header *tar.Header, content io.Reader) (err error) {
	mode := os.FileMode(modeFile)
	if header.Mode&0o111 != 0 {
		mode = modeExecutable
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return &EntryError{Digest: u.digest, Path: header.Name, Err: err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	source := &readErrors{r: content}
	if _, err := io.Copy(f, source); err != nil {
		if source.err != nil {
			return &TruncatedError{Digest: u.digest, Err: source.err}
		}
		return fmt.Errorf("unpack artifact: %w", err)
	}
	return nil
}

// readErrors remembers whether reading failed, to tell a bad archive from a full disk.
type readErrors struct {
	r   io.Reader
	err error
}

func (s *readErrors) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// tail remembers the last bytes that were read.
type tail struct {
	r    io.Reader
	last []byte
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.last = append(t.last, p[max(0, n-trailerSize):n]...)
	t.last = t.last[max(0, len(t.last)-trailerSize):]
	return n, err
}
