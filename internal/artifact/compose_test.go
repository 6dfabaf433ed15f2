package artifact

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// list is the files of a tree with their content.
func list(t *testing.T, tree *Tree) []string {
	t.Helper()
	files, err := tree.Files(Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Path+"="+string(text))
	}
	return out
}

func TestOnly(t *testing.T) {
	tree := NewTree()
	for _, name := range []string{"apps/a/x", "apps/b/x", "apps-old/x", "infra/y", "top"} {
		if err := tree.Add(name, TextEntry(name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		only, want []string
	}{
		"a directory":            {[]string{"apps"}, []string{"apps/a/x", "apps/b/x"}},
		"written otherwise":      {[]string{"./infra/", "/top"}, []string{"infra/y", "top"}},
		"one within another":     {[]string{"apps/a", "apps"}, []string{"apps/a/x", "apps/b/x"}},
		"siblings":               {[]string{"apps/a", "apps/b"}, []string{"apps/a/x", "apps/b/x"}},
		"all":                    {[]string{"."}, []string{"apps-old/x", "apps/a/x", "apps/b/x", "infra/y", "top"}},
		"out, cut at the root":   {[]string{"../infra"}, []string{"infra/y"}},
		"nothing that is there":  {[]string{"apps", "gone"}, nil},
		"something below a file": {[]string{"top/x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tree.Only(tt.only)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			var paths []string
			for _, f := range list(t, got) {
				path, _, _ := strings.Cut(f, "=")
				paths = append(paths, path)
			}
			if !slices.Equal(paths, tt.want) {
				t.Errorf("files %v, want %v", paths, tt.want)
			}
		})
	}
	if n := len(list(t, tree)); n != 5 {
		t.Errorf("the tree itself has %d files now", n)
	}
}

func TestAddDir(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"conf/a.yaml": "a", "conf/sub/b.yaml": "b", "top.yaml": "c"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, tt := range map[string]struct {
		from, to string
		want     []string
	}{
		"all":                {"", "lib", []string{"lib/conf/a.yaml=a", "lib/conf/sub/b.yaml=b", "lib/top.yaml=c", "own.yaml=x"}},
		"a directory":        {"./conf", "lib", []string{"lib/a.yaml=a", "lib/sub/b.yaml=b", "own.yaml=x"}},
		"a file":             {"top.yaml", "lib/renamed.yaml", []string{"lib/renamed.yaml=c", "own.yaml=x"}},
		"to the root":        {"conf/sub", "/", []string{"b.yaml=b", "own.yaml=x"}},
		"out of both":        {"../conf/sub", "../../lib", []string{"lib/b.yaml=b", "own.yaml=x"}},
		"nothing is there":   {"gone", "lib", nil},
		"the place is taken": {"top.yaml", "own.yaml", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree := NewTree()
			if err := tree.Add("own.yaml", TextEntry("x")); err != nil {
				t.Fatal(err)
			}
			err := tree.AddDir(root, tt.from, tt.to)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error %v", err)
			}
			if got := list(t, tree); err == nil && !slices.Equal(got, tt.want) {
				t.Errorf("files %v, want %v", got, tt.want)
			}
		})
	}
}
