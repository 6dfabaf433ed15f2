package gitserver_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

func start(t *testing.T, configure func(*gitserver.Server)) *gitserver.Server {
	t.Helper()
	s := gitserver.New(t.TempDir())
	if configure != nil {
		configure(s)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.CreateRepository("team/app.git"); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestServesARealClient clones with git itself what was committed without a working copy.
func TestServesARealClient(t *testing.T) {
	s := start(t, nil)
	if _, err := s.Commit("team/app.git", "main", map[string]string{"a.yaml": "one", "dir/b.yaml": "two"}, "first"); err != nil {
		t.Fatal(err)
	}
	second, err := s.CommitChange("team/app.git", gitserver.Change{
		Branch: "main", Files: map[string]string{"a.yaml": "three"}, Links: map[string]string{"link": "a.yaml"}, Message: "second",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete("team/app.git", "main", "third", "dir"); err != nil {
		t.Fatal(err)
	}
	if err := s.AnnotatedTag("team/app.git", "v1", second, "release"); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.Command("git", "clone", "--quiet", s.URL("team/app.git"), clone).CombinedOutput(); err != nil {
		t.Fatalf("clone: %v: %s", err, out)
	}
	out, err := exec.Command("git", "-C", clone, "ls-files", "--stage").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out); strings.Count(got, "\n") != 2 || !strings.Contains(got, "120000") {
		t.Errorf("files after the third commit:\n%s", got)
	}
	if listings, packs := s.Requests(); listings == 0 || packs == 0 {
		t.Errorf("requests: %d listings, %d packs; want both", listings, packs)
	}
}

func TestAuthorization(t *testing.T) {
	s := start(t, func(s *gitserver.Server) { s.Username, s.Password, s.BearerToken = "user", "secret", "token" })
	tests := map[string]struct {
		header     func(*http.Request)
		wantStatus int
	}{
		"none":           {func(*http.Request) {}, http.StatusUnauthorized},
		"basic":          {func(r *http.Request) { r.SetBasicAuth("user", "secret") }, http.StatusOK},
		"wrong password": {func(r *http.Request) { r.SetBasicAuth("user", "guess") }, http.StatusUnauthorized},
		"bearer":         {func(r *http.Request) { r.Header.Set("Authorization", "Bearer token") }, http.StatusOK},
		"wrong token":    {func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") }, http.StatusUnauthorized},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodGet, s.URL("team/app.git")+"/info/refs?service=git-upload-pack", nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.header(r)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != tt.wantStatus {
				t.Errorf("status %d, want %d", res.StatusCode, tt.wantStatus)
			}
		})
	}
}
