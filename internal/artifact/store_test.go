package artifact

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
)

var slot = Slot{Kind: "GitRepository", Namespace: "apps", Name: "web"}

func openStore(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir
}

func publish(t *testing.T, s *Store, name string, entries map[string]string) *meta.Artifact {
	t.Helper()
	files, err := treeOf(t, entries).Files(Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Publish(t.Context(), Publication{Slot: slot, Name: name, Revision: "main@sha1:" + name, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPublish(t *testing.T) {
	s, dir := openStore(t)
	s.Advertise("holdfast.example")
	a := publish(t, s, "abc", map[string]string{"a.yaml": "1"})
	if a.Path != "gitrepository/apps/web/abc.tar.gz" || a.URL != "http://holdfast.example/gitrepository/apps/web/abc.tar.gz" {
		t.Errorf("path %s, URL %s", a.Path, a.URL)
	}
	info, err := os.Stat(filepath.Join(dir, a.Path))
	if err != nil || info.Size() != *a.Size {
		t.Errorf("file %v, %v; want %d bytes", info, err, *a.Size)
	}
	if err := s.Verify(a); err != nil {
		t.Error(err)
	}
	if a.Revision != "main@sha1:abc" || a.LastUpdateTime.IsZero() || !strings.HasPrefix(a.Digest, "sha256:") {
		t.Errorf("artifact %+v", a)
	}
}

// TestDigestIsReproducible: the same tree gives the same digest, another one another.
func TestDigestIsReproducible(t *testing.T) {
	s, _ := openStore(t)
	entries := map[string]string{"b.yaml": "1", "a/x": "2", "a/y": "3", strings.Repeat("long/", 60) + "z": "4"}
	first := publish(t, s, "one", entries)
	if again := publish(t, s, "two", entries); again.Digest != first.Digest {
		t.Errorf("digests %s and %s of the same tree", first.Digest, again.Digest)
	}
	entries["a/y"] = "4"
	if other := publish(t, s, "three", entries); other.Digest == first.Digest {
		t.Error("same digest for another tree")
	}
}

// TestC25FailedPublicationLeavesTheFormerArtifact: neither a source that ends early nor one that fails nor a context
// that ends may replace what is published.
func TestC25FailedPublicationLeavesTheFormerArtifact(t *testing.T) {
	s, dir := openStore(t)
	former := publish(t, s, "abc", map[string]string{"a.yaml": "1", "b.yaml": "2"})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("disk gone")
	tests := map[string]struct {
		ctx   context.Context
		entry Entry
	}{
		"shorter than announced": {t.Context(), Entry{Size: 10, Open: open("short")}},
		"longer than announced":  {t.Context(), Entry{Size: 2, Open: open("longer")}},
		"can't be opened":        {t.Context(), Entry{Size: 2, Open: func() (io.ReadCloser, error) { return nil, broken }}},
		"ended":                  {ended, TextEntry("1")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := []File{{Path: "a.yaml", Entry: &tt.entry}, {Path: "b.yaml", Entry: &Entry{Size: 1, Open: open("2")}}}
			if _, err := s.Publish(tt.ctx, Publication{Slot: slot, Name: "abc", Revision: "r", Files: files}); err == nil {
				t.Fatal("published")
			}
			if err := s.Verify(former); err != nil {
				t.Errorf("former artifact: %v", err)
			}
			left, err := os.ReadDir(filepath.Join(dir, slot.dir()))
			if err != nil || len(left) != 1 {
				t.Errorf("left %v, %v; want the former artifact alone", left, err)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	s, dir := openStore(t)
	a := publish(t, s, "abc", map[string]string{"a": "1"})
	if err := s.Verify(nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("no artifact: %v", err)
	}
	gone := a.DeepCopy()
	gone.Path = "gitrepository/apps/web/gone.tar.gz"
	if err := s.Verify(gone); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing file: %v", err)
	}
	outside := a.DeepCopy()
	outside.Path = "../../../../etc/passwd"
	if err := s.Verify(outside); err == nil {
		t.Error("a file outside of the store was read")
	}
	if err := os.WriteFile(filepath.Join(dir, a.Path), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mismatch *DigestMismatch
	if err := s.Verify(a); !errors.As(err, &mismatch) || mismatch.Want != a.Digest {
		t.Errorf("changed file: %v", err)
	}
}

func TestStoreSurvivesReopening(t *testing.T) {
	s, dir := openStore(t)
	a := publish(t, s, "abc", map[string]string{"a": "1"})
	again, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Verify(a); err != nil {
		t.Error(err)
	}
}

func TestGarbage(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration, name string) record { return record{path: "s/" + name, since: now.Add(-d)} }
	records := []record{
		ago(5*time.Hour, "current.tar.gz"), ago(time.Second, "new.tar.gz"), ago(time.Minute, "mid.tar.gz"),
		ago(time.Hour, "old.tar.gz"), ago(2*time.Hour, temporaryPrefix+"dead"), ago(time.Minute, temporaryPrefix+"alive"),
		ago(9*time.Hour, "notes.txt"),
	}
	tests := map[string]struct {
		current   string
		retention Retention
		want      []string
	}{
		"by age":            {"s/current.tar.gz", Retention{TTL: 2 * time.Minute}, []string{"s/old.tar.gz"}},
		"by number":         {"s/current.tar.gz", Retention{Records: 2}, []string{"s/mid.tar.gz", "s/old.tar.gz"}},
		"the current alone": {"s/current.tar.gz", Retention{Records: 1}, []string{"s/new.tar.gz", "s/mid.tar.gz", "s/old.tar.gz"}},
		"both":              {"s/current.tar.gz", Retention{TTL: 2 * time.Minute, Records: 2}, []string{"s/mid.tar.gz", "s/old.tar.gz"}},
		"no limit":          {"s/current.tar.gz", Retention{}, nil},
		"current is gone":   {"s/gone.tar.gz", Retention{Records: 2}, []string{"s/old.tar.gz", "s/current.tar.gz"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.retention.Now = now
			got := garbage(slices.Clone(records), tt.current, tt.retention)
			want := append(slices.Clone(tt.want), "s/"+temporaryPrefix+"dead")
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("garbage %v, want %v", got, want)
			}
		})
	}
}

// TestCollectCountsFromReplacement: an artifact that was current for long is not deleted the moment it is replaced.
func TestCollectCountsFromReplacement(t *testing.T) {
	s, dir := openStore(t)
	old := publish(t, s, "old", map[string]string{"a": "1"})
	long := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, old.Path), long, long); err != nil {
		t.Fatal(err)
	}
	current := publish(t, s, "new", map[string]string{"a": "2"})
	if err := s.Retire(old.Path); err != nil {
		t.Fatal(err)
	}
	deleted, err := s.Collect(slot, current.Path, Retention{TTL: time.Minute, Now: time.Now()})
	if err != nil || len(deleted) != 0 {
		t.Errorf("deleted %v, %v", deleted, err)
	}
	deleted, err = s.Collect(slot, current.Path, Retention{TTL: time.Minute, Now: time.Now().Add(time.Hour)})
	if err != nil || !slices.Equal(deleted, []string{old.Path}) || s.Verify(current) != nil {
		t.Errorf("deleted %v, %v; want the old one", deleted, err)
	}
}

func TestRemove(t *testing.T) {
	s, dir := openStore(t)
	publish(t, s, "abc", map[string]string{"a": "1"})
	if err := s.Remove(slot); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gitrepository/apps")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
	if err := s.Remove(slot); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestHandler(t *testing.T) {
	s, dir := openStore(t)
	a := publish(t, s, "abc", map[string]string{"a": "1"})
	outside := filepath.Join(t.TempDir(), "secret.tar.gz")
	in := filepath.Join(dir, slot.dir())
	err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.Symlink(outside, filepath.Join(in, "out.tar.gz")),
		os.WriteFile(filepath.Join(in, temporaryPrefix+"x.tar.gz"), []byte("half"), 0o600),
		os.WriteFile(filepath.Join(in, "notes.txt"), []byte("x"), 0o600),
		os.Mkdir(filepath.Join(in, "dir.tar.gz"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		method, path string
		want         int
	}{
		"artifact":        {http.MethodGet, "/" + a.Path, http.StatusOK},
		"head":            {http.MethodHead, "/" + a.Path, http.StatusOK},
		"post":            {http.MethodPost, "/" + a.Path, http.StatusMethodNotAllowed},
		"root":            {http.MethodGet, "/", http.StatusNotFound},
		"directory":       {http.MethodGet, "/gitrepository/apps/web/", http.StatusNotFound},
		"named as one":    {http.MethodGet, "/gitrepository/apps/web/dir.tar.gz", http.StatusNotFound},
		"missing":         {http.MethodGet, "/gitrepository/apps/web/gone.tar.gz", http.StatusNotFound},
		"being written":   {http.MethodGet, "/gitrepository/apps/web/" + temporaryPrefix + "x.tar.gz", http.StatusNotFound},
		"other file":      {http.MethodGet, "/gitrepository/apps/web/notes.txt", http.StatusNotFound},
		"link out":        {http.MethodGet, "/gitrepository/apps/web/out.tar.gz", http.StatusNotFound},
		"up":              {http.MethodGet, "/../../etc/passwd.tar.gz", http.StatusNotFound},
		"up, and encoded": {http.MethodGet, "/..%2f..%2fetc/passwd.tar.gz", http.StatusNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			if w.Code != tt.want {
				t.Errorf("status %d, want %d", w.Code, tt.want)
			}
		})
	}
}

func TestServer(t *testing.T) {
	s, _ := openStore(t)
	server, err := Listen(s, "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	a := publish(t, s, "abc", map[string]string{"a": "1"})
	if !strings.HasPrefix(a.URL, "http://"+server.Addr().String()+"/") {
		t.Errorf("URL %s does not carry the port of %s", a.URL, server.Addr())
	}
	if err := NewReader(ReaderOptions{}).Fetch(t.Context(), a, t.TempDir()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	if _, err := Listen(s, "256.0.0.1:1", ""); err == nil {
		t.Error("listens on an impossible address")
	}
}

func TestServerThatListensEverywhereIsReachable(t *testing.T) {
	s, _ := openStore(t)
	server, err := Listen(s, ":0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if url := s.URL("x"); strings.Contains(url, "//:") || strings.Contains(url, "0.0.0.0") || strings.Contains(url, "[::]") {
		t.Errorf("URL %s can't be reached", url)
	}
}
