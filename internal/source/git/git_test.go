package git_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/source/git"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

const repo = "app.git"

func serve(t *testing.T, configure func(*gitserver.Server)) *gitserver.Server {
	t.Helper()
	s := gitserver.New(t.TempDir())
	if configure != nil {
		configure(s)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.CreateRepository(repo); err != nil {
		t.Fatal(err)
	}
	return s
}

func commit(t *testing.T, s *gitserver.Server, branch string, files map[string]string) string {
	t.Helper()
	sha, err := s.CommitTree(repo, branch, files, "change "+branch+"\n\nbody")
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

func remote(t *testing.T, url string, auth git.Auth, ca []byte) *git.Remote {
	t.Helper()
	auth.TLS.CA = ca
	r, err := git.NewRemote(url, auth, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// get resolves a reference and fetches what it points at.
func get(ctx context.Context, r *git.Remote, ref git.Reference) (*git.Snapshot, error) {
	head, err := r.Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	return r.Fetch(ctx, head)
}

// fetch gets a snapshot and returns the paths in it.
func fetch(t *testing.T, r *git.Remote, ref git.Reference) (*git.Snapshot, []string) {
	t.Helper()
	snapshot, err := get(t.Context(), r, ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := snapshot.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := snapshot.Tree.Files(artifact.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return snapshot, paths
}

func TestFetchesWhatTheReferenceNames(t *testing.T) {
	s := serve(t, nil)
	first := commit(t, s, "main", map[string]string{"first.yaml": "1"})
	second := commit(t, s, "main", map[string]string{"second.yaml": "2"})
	other := commit(t, s, "feature/x", map[string]string{"other.yaml": "3"})
	master := commit(t, s, "master", map[string]string{"master.yaml": "4"})
	err := errors.Join(s.Tag(repo, "light", first), s.AnnotatedTag(repo, "v1.0", first, "release"),
		s.Tag(repo, "1.9.3", first), s.AnnotatedTag(repo, "v1.10.0", second, "release"), s.Tag(repo, "v2.0.0-rc.1", other),
		s.Tag(repo, "v3", other), s.Tag(repo, "not-a-version", other), s.SetReference(repo, "refs/pull/7/head", other))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		ref          git.Reference
		wantRevision string
		wantPath     string
	}{
		"branch":            {git.Reference{Branch: "main"}, "main@sha1:" + second, "second.yaml"},
		"branch with path":  {git.Reference{Branch: "feature/x"}, "feature/x@sha1:" + other, "other.yaml"},
		"default":           {git.Reference{}, "master@sha1:" + master, "master.yaml"},
		"light tag":         {git.Reference{Tag: "light"}, "light@sha1:" + first, "first.yaml"},
		"annotated tag":     {git.Reference{Tag: "v1.0"}, "v1.0@sha1:" + first, "first.yaml"},
		"tag over branch":   {git.Reference{Tag: "v1.0", Branch: "main"}, "v1.0@sha1:" + first, "first.yaml"},
		"commit":            {git.Reference{Commit: first}, "sha1:" + first, "first.yaml"},
		"commit on branch":  {git.Reference{Commit: first, Branch: "main"}, "main@sha1:" + first, "first.yaml"},
		"commit over tag":   {git.Reference{Commit: second, Tag: "v1.0"}, "sha1:" + second, "second.yaml"},
		"name of a branch":  {git.Reference{Name: "refs/heads/main"}, "refs/heads/main@sha1:" + second, "second.yaml"},
		"name of a tag":     {git.Reference{Name: "refs/tags/v1.0"}, "refs/tags/v1.0@sha1:" + first, "first.yaml"},
		"name, peeled":      {git.Reference{Name: "refs/tags/v1.0^{}"}, "refs/tags/v1.0^{}@sha1:" + first, "first.yaml"},
		"name of a pull":    {git.Reference{Name: "refs/pull/7/head"}, "refs/pull/7/head@sha1:" + other, "other.yaml"},
		"name over tag":     {git.Reference{Name: "refs/heads/main", Tag: "v1.0"}, "refs/heads/main@sha1:" + second, "second.yaml"},
		"commit over name":  {git.Reference{Commit: first, Name: "refs/heads/main"}, "refs/heads/main@sha1:" + first, "first.yaml"},
		"range":             {git.Reference{SemVer: ">=1.0.0 <2.0.0"}, "v1.10.0@sha1:" + second, "second.yaml"},
		"range with x":      {git.Reference{SemVer: "1.9.x"}, "1.9.3@sha1:" + first, "first.yaml"},
		"range over branch": {git.Reference{SemVer: "1.9.x", Branch: "main"}, "1.9.3@sha1:" + first, "first.yaml"},
		"range with pre":    {git.Reference{SemVer: ">=1.0.0-0"}, "v2.0.0-rc.1@sha1:" + other, "other.yaml"},
		"tag over range":    {git.Reference{SemVer: ">=1.0.0", Tag: "light"}, "light@sha1:" + first, "first.yaml"},
	}
	r := remote(t, s.URL(repo), git.Auth{}, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot, paths := fetch(t, r, tt.ref)
			if snapshot.Revision != tt.wantRevision {
				t.Errorf("revision %s, want %s", snapshot.Revision, tt.wantRevision)
			}
			if len(paths) != 1 || paths[0] != tt.wantPath {
				t.Errorf("files %v, want %s", paths, tt.wantPath)
			}
			if !strings.HasPrefix(snapshot.Subject, "change ") || strings.Contains(snapshot.Subject, "body") {
				t.Errorf("subject %q, want the first line of the message", snapshot.Subject)
			}
			head, err := r.Resolve(t.Context(), tt.ref)
			if err != nil || head.Revision != tt.wantRevision {
				t.Errorf("resolved to %s, %v; want %s", head.Revision, err, tt.wantRevision)
			}
		})
	}
}

// TestRangeWithTagsOfTheSameVersion: build metadata is no part of the order, so that the youngest commit decides.
func TestRangeWithTagsOfTheSameVersion(t *testing.T) {
	s := serve(t, nil)
	// Commits carry whole seconds; these are a day apart.
	old := datedCommit(t, s, "main", "1700000000")
	young := datedCommit(t, s, "main", "1700086400")
	middle := datedCommit(t, s, "main", "1700040000")
	err := errors.Join(s.Tag(repo, "v1.0.0+z", old), s.AnnotatedTag(repo, "v1.0.0+a", young, "release"), s.Tag(repo, "v1.0.0+m", middle))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, _ := fetch(t, remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{SemVer: "1.0.0"})
	if snapshot.Revision != "v1.0.0+a@sha1:"+young {
		t.Errorf("revision %s, want that of the youngest commit %s", snapshot.Revision, young)
	}
}

func datedCommit(t *testing.T, s *gitserver.Server, branch, seconds string) string {
	t.Helper()
	sha, err := s.CommitChange(repo, gitserver.Change{Branch: branch, Files: map[string]string{"at": seconds}, Seconds: seconds})
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// TestClientCertificate: what a server asks for that lets in only those whom its authority vouches for.
func TestClientCertificate(t *testing.T) {
	s := serve(t, func(s *gitserver.Server) { s.TLS, s.ClientCertificate = true, true })
	commit(t, s, "main", map[string]string{"a": "1"})
	certificate, key, err := s.ClientPair()
	if err != nil {
		t.Fatal(err)
	}
	auth := git.Auth{TLS: git.TLS{Cert: certificate, Key: key}}
	if _, paths := fetch(t, remote(t, s.URL(repo), auth, s.CA()), git.Reference{Branch: "main"}); len(paths) != 1 {
		t.Errorf("files %v, want one", paths)
	}
	_, err = remote(t, s.URL(repo), git.Auth{}, s.CA()).Resolve(t.Context(), git.Reference{Branch: "main"})
	wantReason(t, err, git.ReasonOperationFailed)
	_, err = git.NewRemote(s.URL(repo), git.Auth{TLS: git.TLS{Cert: certificate}}, "")
	wantReason(t, err, git.ReasonAuthenticationFailed)
}

func TestThroughAProxy(t *testing.T) {
	s := serve(t, func(s *gitserver.Server) { s.TLS = true })
	commit(t, s, "main", map[string]string{"a": "1"})
	var used atomic.Int32
	handler := goproxy.NewProxyHttpServer()
	handler.OnRequest().HandleConnectFunc(func(host string, c *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		if c.Req.Header.Get("Proxy-Authorization") != "Basic dXNlcjpzM2NyM3Q=" {
			return goproxy.RejectConnect, host
		}
		used.Add(1)
		return goproxy.OkConnect, host
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy.User = url.UserPassword("user", "s3cr3t")
	if _, paths := fetch(t, remote(t, s.URL(repo), git.Auth{Proxy: proxy}, s.CA()), git.Reference{Branch: "main"}); len(paths) != 1 || used.Load() == 0 {
		t.Errorf("files %v, %d connections through the proxy; want one file and some", paths, used.Load())
	}
	proxy.User = url.UserPassword("user", "gu3ss")
	_, err = remote(t, s.URL(repo), git.Auth{Proxy: proxy}, s.CA()).Resolve(t.Context(), git.Reference{Branch: "main"})
	wantReason(t, err, git.ReasonOperationFailed)
}

func TestCommitFromServerThatSendsBranchesOnly(t *testing.T) {
	s := serve(t, nil)
	if err := s.Configure(repo, "uploadpack.allowReachableSHA1InWant", "false"); err != nil {
		t.Fatal(err)
	}
	first := commit(t, s, "main", map[string]string{"first.yaml": "1"})
	commit(t, s, "main", map[string]string{"second.yaml": "2"})
	_, paths := fetch(t, remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{Commit: first})
	if len(paths) != 1 || paths[0] != "first.yaml" {
		t.Errorf("files %v, want those of the first commit", paths)
	}
}

func TestResolveCostsNoPack(t *testing.T) {
	s := serve(t, nil)
	commit(t, s, "main", map[string]string{"a": "1"})
	if _, err := remote(t, s.URL(repo), git.Auth{}, nil).Resolve(t.Context(), git.Reference{Branch: "main"}); err != nil {
		t.Fatal(err)
	}
	if listings, packs := s.Requests(); listings != 1 || packs != 0 {
		t.Errorf("%d listings and %d packs, want one listing", listings, packs)
	}
}

func TestFetchesOneCommitAndNotTheHistory(t *testing.T) {
	s := serve(t, nil)
	for range 5 {
		commit(t, s, "main", map[string]string{"large": strings.Repeat(time.Now().String(), 1000)})
	}
	last := commit(t, s, "main", map[string]string{"small": "1"})
	for name, ref := range map[string]git.Reference{"branch": {Branch: "main"}, "commit": {Commit: last}} {
		t.Run(name, func(t *testing.T) {
			snapshot, _ := fetch(t, remote(t, s.URL(repo), git.Auth{}, nil), ref)
			if n := snapshot.Commits(t); n != 1 {
				t.Errorf("%d commits were fetched, want 1", n)
			}
		})
	}
}

func TestModesAndLinks(t *testing.T) {
	s := serve(t, nil)
	_, err := s.CommitChange(repo, gitserver.Change{
		Branch: "main", Files: map[string]string{"run.sh": "#!", "dir/a.yaml": "a"}, Executable: []string{"run.sh"},
		Links: map[string]string{"link": "dir", "away": "/etc/passwd"},
	})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := get(t.Context(), remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{Branch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	var refused *artifact.LinkError
	if _, err := snapshot.Tree.Files(artifact.Ignore{}); !errors.As(err, &refused) || refused.Path != "away" {
		t.Errorf("error %v, want one that names the link out of the repository", err)
	}
	text := "away"
	ignore, err := snapshot.Tree.Ignore(&text)
	if err != nil {
		t.Fatal(err)
	}
	files, err := snapshot.Tree.Files(ignore)
	if err != nil || len(files) != 3 || files[1].Path != "link/a.yaml" || !files[2].Executable {
		t.Errorf("files %v, %v; want the link followed and the script executable", files, err)
	}
}

func TestCredentials(t *testing.T) {
	s := serve(t, func(s *gitserver.Server) {
		s.TLS, s.Username, s.Password, s.BearerToken = true, "user", "s3cr3t", "t0k3n"
	})
	commit(t, s, "main", map[string]string{"a": "1"})
	url := s.URL(repo)
	inURL := strings.Replace(url, "https://", "https://user:s3cr3t@", 1)
	wrongInURL := strings.Replace(url, "https://", "https://user:gu3ss@", 1)
	tests := map[string]struct {
		url        string
		auth       git.Auth
		ca         []byte
		wantReason git.Reason
	}{
		"basic":        {url, git.Auth{Username: "user", Password: "s3cr3t"}, s.CA(), ""},
		"bearer":       {url, git.Auth{BearerToken: "t0k3n"}, s.CA(), ""},
		"in URL":       {inURL, git.Auth{}, s.CA(), ""},
		"none":         {url, git.Auth{}, s.CA(), git.ReasonAuthenticationFailed},
		"wrong":        {url, git.Auth{Username: "user", Password: "gu3ss"}, s.CA(), git.ReasonAuthenticationFailed},
		"wrong in URL": {wrongInURL, git.Auth{}, s.CA(), git.ReasonAuthenticationFailed},
		"unknown CA":   {url, git.Auth{Username: "user", Password: "s3cr3t"}, nil, git.ReasonOperationFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := remote(t, tt.url, tt.auth, tt.ca)
			_, err := r.Resolve(t.Context(), git.Reference{Branch: "main"})
			wantReason(t, err, tt.wantReason)
			snapshot, err := get(t.Context(), r, git.Reference{Branch: "main"})
			wantReason(t, err, tt.wantReason)
			if err == nil {
				snapshot.Close()
			}
		})
	}
}

// wantReason checks the class of an error, and that its message tells no secret and says what to do.
func wantReason(t *testing.T, err error, want git.Reason) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	var failure *git.Error
	if !errors.As(err, &failure) {
		t.Fatalf("error %v, want a %s", err, want)
	}
	if failure.Reason != want {
		t.Errorf("reason %s, want %s: %v", failure.Reason, want, err)
	}
	for _, secret := range []string{"s3cr3t", "gu3ss", "t0k3n", "user"} {
		if strings.Contains(strings.ReplaceAll(err.Error(), "username", ""), secret) {
			t.Errorf("the message holds %q: %v", secret, err)
		}
	}
	if failure.Advice == "" {
		t.Errorf("the message says nothing to do: %v", err)
	}
	t.Log(err)
}

func TestFailures(t *testing.T) {
	s := serve(t, nil)
	commit(t, s, "main", map[string]string{"a": "1"})
	elsewhere := commit(t, s, "other", map[string]string{"b": "1"})
	if err := s.CreateRepository("empty.git"); err != nil {
		t.Fatal(err)
	}
	absent := strings.Repeat("a", 40)
	tests := map[string]struct {
		url        string
		ref        git.Reference
		wantReason git.Reason
	}{
		"no such branch":          {s.URL(repo), git.Reference{Branch: "gone"}, git.ReasonOperationFailed},
		"no such tag":             {s.URL(repo), git.Reference{Tag: "gone"}, git.ReasonOperationFailed},
		"no such commit":          {s.URL(repo), git.Reference{Commit: absent}, git.ReasonOperationFailed},
		"commit on other branch":  {s.URL(repo), git.Reference{Commit: elsewhere, Branch: "main"}, git.ReasonOperationFailed},
		"commit on absent branch": {s.URL(repo), git.Reference{Commit: elsewhere, Branch: "gone"}, git.ReasonOperationFailed},
		"no such repository":      {s.URL("gone.git"), git.Reference{Branch: "main"}, git.ReasonOperationFailed},
		"empty repository":        {s.URL("empty.git"), git.Reference{Branch: "main"}, git.ReasonOperationFailed},
		"unreachable":             {"http://127.0.0.1:1/app.git", git.Reference{Branch: "main"}, git.ReasonOperationFailed},
		"unknown host":            {"http://host.invalid/app.git", git.Reference{Branch: "main"}, git.ReasonOperationFailed},
		"short commit":            {s.URL(repo), git.Reference{Commit: "abc123"}, git.ReasonReferenceInvalid},
		"impossible branch":       {s.URL(repo), git.Reference{Branch: "a..b"}, git.ReasonReferenceInvalid},
		"no such name":            {s.URL(repo), git.Reference{Name: "refs/heads/gone"}, git.ReasonOperationFailed},
		"name that is not full":   {s.URL(repo), git.Reference{Name: "main"}, git.ReasonReferenceInvalid},
		"nothing in the range":    {s.URL(repo), git.Reference{SemVer: ">=9.0.0"}, git.ReasonOperationFailed},
		"not a range":             {s.URL(repo), git.Reference{SemVer: "latest"}, git.ReasonReferenceInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := get(t.Context(), remote(t, tt.url, git.Auth{}, nil), tt.ref)
			wantReason(t, err, tt.wantReason)
			if tt.ref.Commit == "" {
				_, err = remote(t, tt.url, git.Auth{}, nil).Resolve(t.Context(), tt.ref)
				wantReason(t, err, tt.wantReason)
			}
		})
	}
}

func TestInvalidURLs(t *testing.T) {
	for _, url := range []string{"ssh://", "https://", "://x", "https://user:s3cr3t@ho st/x", "file:///etc", "git@host:repo",
		"https://host/repo?token=s3cr3t", "https://host/repo#s3cr3t"} {
		_, err := git.NewRemote(url, git.Auth{}, "")
		wantReason(t, err, git.ReasonURLInvalid)
	}
}

// TestLargeFiles: files that are streamed from disk, and ones that the pack holds as a difference, arrive whole.
func TestLargeFiles(t *testing.T) {
	s := serve(t, nil)
	chance := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(chance.Uint32())
	}
	want := map[string]string{"a.bin": string(noise), "b.bin": string(noise) + "more", "c.txt": strings.Repeat("text\n", 500_000), "d": ""}
	commit(t, s, "main", want)
	if err := s.Configure(repo, "pack.threads", "1"); err != nil {
		t.Fatal(err)
	}
	snapshot, _ := fetch(t, remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{Branch: "main"})
	files, err := snapshot.Tree.Files(artifact.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil || string(got) != want[f.Path] || f.Size != int64(len(got)) {
			t.Errorf("%s: %d bytes, %v; want %d", f.Path, len(got), err, len(want[f.Path]))
		}
	}
}

// TestServerErrors: what a broken server says is kept to one line.
func TestServerErrors(t *testing.T) {
	page := strings.Repeat("<html>\n", 1000)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/error/info/refs" {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write([]byte(page)) // a client that goes away is not the server's problem
	}))
	defer broken.Close()
	for _, path := range []string{"/error", "/page"} {
		_, err := remote(t, broken.URL+path, git.Auth{}, nil).Resolve(t.Context(), git.Reference{})
		wantReason(t, err, git.ReasonOperationFailed)
		if len(err.Error()) > 600 || strings.Contains(err.Error(), "\n") {
			t.Errorf("message of %d bytes: %v", len(err.Error()), err)
		}
	}
}

// TestTimeout: a server that does not answer holds nobody longer than the context allows.
func TestTimeout(t *testing.T) {
	s := serve(t, nil)
	commit(t, s, "main", map[string]string{"a": "1"})
	tests := map[string]func(*http.Request) bool{
		"listing": func(*http.Request) bool { return true },
		"pack":    gitserver.IsPack,
	}
	for name, slow := range tests {
		t.Run(name, func(t *testing.T) {
			s.SetFault(func(r *http.Request) gitserver.Fault {
				if slow(r) {
					return gitserver.Fault{Delay: time.Minute}
				}
				return gitserver.Fault{}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := get(ctx, remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{Branch: "main"})
			if !errors.Is(err, git.ErrTimeout) {
				t.Errorf("error %v, want a timeout", err)
			}
			wantReason(t, err, git.ReasonOperationFailed)
		})
	}
}

// TestC25ConnectionCutDuringFetch: a pack that ends early is an error and never a smaller tree.
func TestC25ConnectionCutDuringFetch(t *testing.T) {
	s := serve(t, nil)
	commit(t, s, "main", map[string]string{"a": strings.Repeat("x", 100), "b": strings.Repeat("y", 100), "c/d": "z"})
	for cut := int64(1); cut < 400; cut += 13 {
		s.SetFault(func(r *http.Request) gitserver.Fault {
			if gitserver.IsPack(r) {
				return gitserver.Fault{CutAfter: cut}
			}
			return gitserver.Fault{}
		})
		snapshot, err := get(t.Context(), remote(t, s.URL(repo), git.Auth{}, nil), git.Reference{Branch: "main"})
		if err != nil {
			continue
		}
		files, err := snapshot.Tree.Files(artifact.Ignore{})
		if err != nil || len(files) != 3 {
			t.Errorf("cut after %d bytes: %d files, %v; want all or an error", cut, len(files), err)
		}
		snapshot.Close()
	}
}
