package git_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/source/git"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// modules is a .gitmodules of pairs of path and URL.
func modules(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "[submodule %q]\n\tpath = %s\n\turl = %s\n", pairs[i], pairs[i], pairs[i+1])
	}
	return b.String()
}

func commitTo(t *testing.T, s *gitserver.Server, repo string, c gitserver.Change) string {
	t.Helper()
	if err := s.CreateRepository(repo); err != nil {
		t.Fatal(err)
	}
	c.Branch, c.Message = "main", "change"
	sha, err := s.CommitChange(repo, c)
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// withSubmodules fetches main with its submodules, and returns the paths.
func withSubmodules(t *testing.T, r *git.Remote) ([]string, error) {
	t.Helper()
	snapshot, err := get(t.Context(), r, git.Reference{Branch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := snapshot.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := snapshot.AddSubmodules(t.Context(), r); err != nil {
		return nil, err
	}
	files, err := snapshot.Tree.Files(artifact.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range files {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, f.Path)
	}
	return paths, nil
}

// TestSubmodules: those of submodules too, by relative and whole URLs, over HTTP with credentials and over SSH.
func TestSubmodules(t *testing.T) {
	s := serve(t, func(s *gitserver.Server) { s.Username, s.Password = "user", "s3cr3t" })
	d, err := s.StartSSH(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	inner := commitTo(t, s, "libs/inner.git", gitserver.Change{Files: map[string]string{"inner.yaml": "1"}})
	outer := commitTo(t, s, "libs/outer.git", gitserver.Change{
		Files:      map[string]string{"outer.yaml": "1", ".gitmodules": modules("nested/inner", "../inner.git")},
		Submodules: map[string]string{"nested/inner": inner},
	})
	if _, err := s.Commit("libs/outer.git", "main", map[string]string{"newer.yaml": "1"}, "the submodule stays at its commit"); err != nil {
		t.Fatal(err)
	}
	_, err = s.CommitChange(repo, gitserver.Change{
		Branch: "main", Files: map[string]string{"a.yaml": "1", ".gitmodules": modules("lib/outer", "./../libs/outer.git", "again", s.URL("libs/inner.git"))},
		Submodules: map[string]string{"lib/outer": outer, "again": inner},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".gitmodules", "a.yaml", "again/inner.yaml", "lib/outer/.gitmodules", "lib/outer/nested/inner/inner.yaml", "lib/outer/outer.yaml"}
	paths, err := withSubmodules(t, remote(t, s.URL(repo), git.Auth{Username: "user", Password: "s3cr3t"}, nil))
	if err != nil || !slices.Equal(paths, want) {
		t.Errorf("files %v, %v; want %v", paths, err, want)
	}
	// Over SSH the one that is named with an http URL is on another server, which wants credentials and gets none.
	_, err = withSubmodules(t, remote(t, d.URL(repo), git.Auth{Identity: d.Identity, KnownHosts: d.KnownHosts}, nil))
	wantReason(t, errors.Unwrap(err), git.ReasonAuthenticationFailed)
	_, err = s.CommitChange(repo, gitserver.Change{Branch: "main", Files: map[string]string{".gitmodules": modules("lib/outer", "../libs/outer.git")}, Delete: []string{"again"}})
	if err != nil {
		t.Fatal(err)
	}
	paths, err = withSubmodules(t, remote(t, d.URL(repo), git.Auth{Identity: d.Identity, KnownHosts: d.KnownHosts}, nil))
	if err != nil || len(paths) != 5 {
		t.Errorf("over SSH: files %v, %v; want five", paths, err)
	}
}

// TestSubmodulesThatCanNotBeFetched are named, and say what to do.
func TestSubmodulesThatCanNotBeFetched(t *testing.T) {
	s := serve(t, nil)
	there := commitTo(t, s, "there.git", gitserver.Change{Files: map[string]string{"x": "1"}})
	endless := commitTo(t, s, "endless.git", gitserver.Change{Files: map[string]string{"x": "1"}})
	for range 12 {
		var err error
		endless, err = s.CommitChange("endless.git", gitserver.Change{
			Branch: "main", Files: map[string]string{".gitmodules": modules("sub", "../endless.git")}, Submodules: map[string]string{"sub": endless},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		modules, commit, want string
	}{
		"not in .gitmodules":   {modules("elsewhere", "../there.git"), there, "says nothing of it"},
		"a file of the server": {modules("sub", "file:///etc"), there, `scheme "file"`},
		"an odd protocol":      {modules("sub", "ext::sh -c id"), there, "not supported"},
		"no such repository":   {modules("sub", "../gone.git"), there, "repository not found"},
		"no such commit":       {modules("sub", "../there.git"), strings.Repeat("a", 40), "not found"},
		"nested for ever":      {modules("sub", "../endless.git"), endless, "nested more than"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := s.CommitChange(repo, gitserver.Change{
				Branch: "main", Replace: true, Files: map[string]string{".gitmodules": tt.modules}, Submodules: map[string]string{"sub": tt.commit},
			})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			r, err := git.NewRemote(s.URL(repo), git.Auth{}, dir)
			if err != nil {
				t.Fatal(err)
			}
			_, err = withSubmodules(t, r)
			var failed *git.Error
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `"sub`) || failed.Advice == "" {
				t.Errorf("error %v, want %q and the name", err, tt.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
