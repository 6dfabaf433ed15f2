package artifact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/zeebo/blake3"
)

// archiveOf writes a tar.gz with the given headers; regular files hold their name.
func archiveOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }

func zip(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sha(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// offer serves content and describes it.
func offer(t *testing.T, content []byte) *meta.Artifact {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// A client that goes away is not the server's problem.
		_, _ = w.Write(content)
	}))
	t.Cleanup(s.Close)
	return &meta.Artifact{URL: s.URL + "/a.tar.gz", Digest: sha(content)}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		t.Errorf("left %v, %v; want nothing", left, err)
	}
}

func TestFetch(t *testing.T) {
	content := archiveOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, file("d/a.yaml"), file("b.yaml"),
		tar.Header{Typeflag: tar.TypeReg, Name: "run.sh", Mode: 0o755})
	dir := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	if err := NewReader(ReaderOptions{}).Fetch(t.Context(), offer(t, content), dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "d/a.yaml"))
	if err != nil || string(got) != "d/a.yaml" {
		t.Errorf("content %q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("script %v, %v; want it executable", info, err)
	}
	if err := NewReader(ReaderOptions{}).Fetch(t.Context(), offer(t, content), dir); err == nil {
		t.Error("unpacked over what was there")
	}
}

// TestC49BinaryContent: every byte value comes through.
func TestC49BinaryContent(t *testing.T) {
	s, _ := openStore(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	a := publish(t, s, "abc", map[string]string{"bin": string(all)})
	served := httptest.NewServer(s.Handler())
	defer served.Close()
	a.URL = served.URL + "/" + a.Path
	dir := t.TempDir()
	if err := NewReader(ReaderOptions{}).Fetch(t.Context(), a, dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "bin")); err != nil || !bytes.Equal(got, all) {
		t.Errorf("content %v, %v", got, err)
	}
}

// P16: every algorithm, and a digest without one; an empty or wrong one is refused.
func TestDigests(t *testing.T) {
	content := archiveOf(t, file("a"))
	a := offer(t, content)
	sum256, sum384, sum512, sum3 := sha256.Sum256(content), sha512.Sum384(content), sha512.Sum512(content), blake3.Sum256(content)
	tests := map[string]struct {
		digest string
		wantOK bool
	}{
		"sha256":      {"sha256:" + hex.EncodeToString(sum256[:]), true},
		"bare hex":    {hex.EncodeToString(sum256[:]), true},
		"upper case":  {"sha256:" + strings.ToUpper(hex.EncodeToString(sum256[:])), true},
		"sha384":      {"sha384:" + hex.EncodeToString(sum384[:]), true},
		"sha512":      {"sha512:" + hex.EncodeToString(sum512[:]), true},
		"blake3":      {"blake3:" + hex.EncodeToString(sum3[:]), true},
		"none":        {"", false},
		"no sum":      {"sha256:", false},
		"short":       {"sha256:abcd", false},
		"not hex":     {"sha256:" + strings.Repeat("z", 64), false},
		"unknown":     {"md5:d41d8cd98f00b204e9800998ecf8427e", false},
		"another sum": {sha([]byte("x")), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, dir := a.DeepCopy(), t.TempDir()
			a.Digest = tt.digest
			err := NewReader(ReaderOptions{}).Fetch(t.Context(), a, dir)
			if (err == nil) != tt.wantOK {
				t.Errorf("error %v, want success %v", err, tt.wantOK)
			}
			if err != nil {
				wantEmpty(t, dir)
			}
		})
	}
}

// TestC25ArchivesThatAreNotWhole: what is cut or not what was announced is refused with its digest, and nothing of it
// is left.
func TestC25ArchivesThatAreNotWhole(t *testing.T) {
	content := archiveOf(t, file("a/first.yaml"), file("b/second.yaml"), file("c/third.yaml"))
	plain := unzip(t, content)
	var (
		truncated *TruncatedError
		mismatch  *DigestMismatch
		size      *SizeMismatch
		transient *TransientError
	)
	tests := map[string]struct {
		content []byte
		change  func(*meta.Artifact)
		want    any
	}{
		"cut, with its own digest":     {content[:len(content)/2], nil, &truncated},
		"without the sum of gzip":      {content[:len(content)-8], nil, &truncated},
		"cut between two files":        {zip(t, plain[:1024]), nil, &truncated},
		"nothing at all":               {nil, nil, &truncated},
		"empty gzip without a tar end": {zip(t, nil), nil, &truncated},
		"no gzip":                      {[]byte("<html>sign in</html>"), nil, &truncated},
		"cut, with the right digest":   {content[:len(content)/2], func(a *meta.Artifact) { a.Digest = sha(content) }, &mismatch},
		"another archive":              {archiveOf(t), func(a *meta.Artifact) { a.Digest = sha(content) }, &mismatch},
		"another size":                 {content, func(a *meta.Artifact) { n := int64(7); a.Size = &n }, &size},
		"no server":                    {content, func(a *meta.Artifact) { a.URL = "http://127.0.0.1:1/a.tar.gz" }, &transient},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, dir := offer(t, tt.content), t.TempDir()
			if tt.change != nil {
				tt.change(a)
			}
			err := NewReader(ReaderOptions{}).Fetch(t.Context(), a, dir)
			if !errors.As(err, tt.want) {
				t.Errorf("error %v, want %T", err, tt.want)
			}
			if !errors.As(err, &transient) && err != nil && !strings.Contains(err.Error(), a.Digest) {
				t.Errorf("the message does not name the digest: %v", err)
			}
			wantEmpty(t, dir)
		})
	}
}

func unzip(t *testing.T, content []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// TestEmptyTreeIsAnArtifact: a commit may hold nothing. Whether that may prune is decided elsewhere.
func TestEmptyTreeIsAnArtifact(t *testing.T) {
	dir := t.TempDir()
	if err := NewReader(ReaderOptions{}).Fetch(t.Context(), offer(t, archiveOf(t)), dir); err != nil {
		t.Error(err)
	}
	wantEmpty(t, dir)
}

func TestAnswersOfTheServer(t *testing.T) {
	content := archiveOf(t, file("a"))
	tests := map[string]struct {
		answer        http.HandlerFunc
		wantNotFound  bool
		wantTransient bool
	}{
		"404": {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, true, false},
		"410": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, true, false},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false, true},
		"503": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false, true},
		"429": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, false, true},
		"403": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, false, false},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(content[:20]) // the client sees the cut, which is what is tested
			panic(http.ErrAbortHandler)
		}, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); tt.answer(w, r) }))
			defer s.Close()
			dir := t.TempDir()
			err := NewReader(ReaderOptions{}).Fetch(t.Context(), &meta.Artifact{URL: s.URL, Digest: sha(content)}, dir)
			var transient *TransientError
			if err == nil || errors.Is(err, ErrNotFound) != tt.wantNotFound || errors.As(err, &transient) != tt.wantTransient {
				t.Errorf("error %v, want not found %v, transient %v", err, tt.wantNotFound, tt.wantTransient)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times, want once", n)
			}
			wantEmpty(t, dir)
		})
	}
}

// P18: the host of the artifact's URL is replaced.
func TestHostIsReplaced(t *testing.T) {
	a := offer(t, archiveOf(t, file("a")))
	host := strings.TrimSuffix(strings.TrimPrefix(a.URL, "http://"), "/a.tar.gz")
	a.URL = "http://source-controller.flux-system.svc.cluster.local./a.tar.gz"
	if err := NewReader(ReaderOptions{Host: host}).Fetch(t.Context(), a, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestP18HostOfTheSourceWatcher: its artifacts have a host of their own, which the other variable does not touch.
func TestP18HostOfTheSourceWatcher(t *testing.T) {
	a := offer(t, archiveOf(t, file("a")))
	host := strings.TrimSuffix(strings.TrimPrefix(a.URL, "http://"), "/a.tar.gz")
	a.URL = "http://source-watcher.flux-system.svc.cluster.local./a.tar.gz"
	if err := NewReader(ReaderOptions{Host: "127.0.0.1:1", WatcherHost: host}).Fetch(t.Context(), a, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestP17LinksAreLeftOut: symbolic links in an archive are no error, and nothing is written through them.
func TestP17LinksAreLeftOut(t *testing.T) {
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."}
	a := offer(t, archiveOf(t, file("ok"), link, file("l/x")))
	parent := t.TempDir()
	dir := filepath.Join(parent, "in")
	if err := NewReader(ReaderOptions{}).Fetch(t.Context(), a, dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(dir, "l"))
	if err != nil || !info.IsDir() {
		t.Errorf("l is %v, %v; want the directory that holds x", info, err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
		t.Errorf("beside the directory: %v, %v", left, err)
	}
}

// TestC49EntriesThatLeaveTheDirectory: paths and links can't lead out, and nothing of such an archive is kept.
func TestC49EntriesThatLeaveTheDirectory(t *testing.T) {
	tests := map[string][]tar.Header{
		"parent":            {file("ok"), file("../escaped")},
		"hidden parent":     {file("ok"), file("a/../../escaped")},
		"absolute":          {file("ok"), file("/tmp/escaped")},
		"directory":         {file("ok"), {Typeflag: tar.TypeDir, Name: "../escaped/"}},
		"hard link":         {file("ok"), {Typeflag: tar.TypeLink, Name: "h", Linkname: "/etc/passwd"}},
		"device":            {file("ok"), {Typeflag: tar.TypeChar, Name: "dev"}},
		"the same twice":    {file("ok"), file("ok")},
		"file as directory": {file("ok"), file("ok/x")},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "in")
			err := NewReader(ReaderOptions{}).Fetch(t.Context(), offer(t, archiveOf(t, headers...)), dir)
			var refused *EntryError
			if !errors.As(err, &refused) {
				t.Errorf("error %v, want one that names the entry", err)
			}
			wantEmpty(t, dir)
			if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
				t.Errorf("beside the directory: %v, %v", left, err)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	content := archiveOf(t, file("some-name"), file("another-name"))
	var (
		size  *SizeMismatch
		entry *EntryError
	)
	dir := t.TempDir()
	if err := NewReader(ReaderOptions{MaxSize: 10}).Fetch(t.Context(), offer(t, content), dir); !errors.As(err, &size) {
		t.Errorf("error %v, want the size refused", err)
	}
	if err := NewReader(ReaderOptions{MaxUnpacked: 10}).Fetch(t.Context(), offer(t, content), dir); !errors.As(err, &entry) {
		t.Errorf("error %v, want the size of the content refused", err)
	}
	wantEmpty(t, dir)
}

// TestManyEntries: an archive of nothing but names is small, and a disk full of empty files. What is passed over counts, too.
func TestManyEntries(t *testing.T) {
	for name, kind := range map[string]byte{"directories": tar.TypeDir, "links": tar.TypeSymlink, "comments": tar.TypeXGlobalHeader} {
		var content bytes.Buffer
		zipped := gzip.NewWriter(&content)
		entries := tar.NewWriter(zipped)
		for range 101 {
			header := tar.Header{Typeflag: kind, Name: "a"}
			if kind == tar.TypeXGlobalHeader {
				header = tar.Header{Typeflag: kind, PAXRecords: map[string]string{"comment": "x"}}
			}
			if err := entries.WriteHeader(&header); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(entries.Close(), zipped.Close()); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for most, want := range map[int]error{100: errTooMany, 101: nil} {
			u := unpacking{ctx: t.Context(), root: root, digest: "sha256:0", left: 1 << 30, entries: most}
			if err := u.read(bytes.NewReader(content.Bytes())); !errors.Is(err, want) {
				t.Errorf("%s, with %d allowed: error %v, want %v", name, most, err, want)
			}
		}
	}
}

// FuzzUnpack: no archive writes outside of its directory, and one that fails leaves nothing in it.
func FuzzUnpack(f *testing.F) {
	f.Add(unzipped(f, archiveOf(f, file("a/b"), file("c"))))
	f.Add(unzipped(f, archiveOf(f, file("../a"))))
	f.Add(unzipped(f, archiveOf(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."}, file("l/x"))))
	f.Fuzz(func(t *testing.T, content []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		err := unpack(t.Context(), bytes.NewReader(zip(t, content)), dir, "sha256:0", 1<<20)
		if err != nil {
			wantEmpty(t, dir)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
			t.Errorf("beside the directory: %v, %v", left, err)
		}
	})
}

func unzipped(f *testing.F, content []byte) []byte {
	f.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		f.Fatal(err)
	}
	return plain
}
