package git_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// front is a server before another one: what act does not answer is passed on.
func front(t *testing.T, s *gitserver.Server, act func(http.ResponseWriter, *http.Request) (answered bool)) string {
	t.Helper()
	behind, err := url.Parse(s.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	behind.Path = ""
	pass := httputil.NewSingleHostReverseProxy(behind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !act(w, r) {
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestRedirects: a server may redirect within itself; another one, be it on the same machine, is shown no credentials.
func TestRedirects(t *testing.T) {
	var mu sync.Mutex
	shown := 0
	s := serve(t, func(s *gitserver.Server) { s.Username, s.Password = "user", "s3cr3t" })
	s.SetFault(func(r *http.Request) gitserver.Fault {
		if r.Header.Get("Authorization") != "" {
			mu.Lock()
			defer mu.Unlock()
			shown++
		}
		return gitserver.Fault{}
	})
	commit(t, s, "main", map[string]string{"a.yaml": "1"})
	auth := git.Auth{Username: "user", Password: "s3cr3t"}
	ref := git.Reference{Branch: "main"}

	elsewhere := front(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, strings.TrimSuffix(s.URL(repo), "/"+repo)+r.URL.RequestURI(), http.StatusFound)
		return true
	})
	_, err := remote(t, elsewhere+"/"+repo, auth, nil).Resolve(t.Context(), ref)
	var failed *git.Error
	if !errors.As(err, &failed) || failed.Reason != git.ReasonAuthenticationFailed || !strings.Contains(err.Error(), "it redirects to http://127.0.0.1:") {
		t.Errorf("error %v", err)
	}
	if shown > 0 {
		t.Error("the other server was shown the credentials")
	}

	within := front(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		moved, found := strings.CutPrefix(r.URL.RequestURI(), "/old.git/")
		if found {
			http.Redirect(w, r, "/"+repo+"/"+moved, http.StatusMovedPermanently)
		}
		return found
	})
	if _, paths := fetch(t, remote(t, within+"/old.git", auth, nil), ref); len(paths) != 1 || shown == 0 {
		t.Errorf("fetched %q, with credentials %d times", paths, shown)
	}
}

// TestServerThatWantsMultiAck: Azure DevOps and AWS CodeCommit answer no client that does not claim multi_ack.
func TestServerThatWantsMultiAck(t *testing.T) {
	s := serve(t, nil)
	commit(t, s, "main", map[string]string{"a.yaml": "1"})
	strict := front(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if !gitserver.IsPack(r) {
			return false
		}
		content, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Contains(content, []byte(" multi_ack_detailed")) {
			http.Error(w, "no multi_ack", http.StatusBadRequest)
			return true
		}
		r.Body = io.NopCloser(bytes.NewReader(content))
		return false
	})
	if _, paths := fetch(t, remote(t, strict+"/"+repo, git.Auth{}, nil), git.Reference{Branch: "main"}); len(paths) != 1 {
		t.Errorf("fetched %q", paths)
	}
}
