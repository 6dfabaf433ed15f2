package artifact

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// treeOf builds a tree; values that start with "->" are links.
func treeOf(t interface{ Fatal(...any) }, entries map[string]string) *Tree {
	tree := NewTree()
	for name, content := range entries {
		e := TextEntry(content)
		if target, ok := strings.CutPrefix(content, "->"); ok {
			e = LinkEntry(target)
		}
		if err := tree.Add(name, e); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func paths(files []File) []string {
	out := []string{}
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}

// TestC49Links: links within the repository work, all others are refused by name.
func TestC49Links(t *testing.T) {
	tests := map[string]struct {
		entries     map[string]string
		want        []string
		wantRefused string
		wantErr     error
	}{
		"sibling directory":    {map[string]string{"a/x": "1", "b": "->a"}, []string{"a/x", "b/x"}, "", nil},
		"file":                 {map[string]string{"a/x": "1", "b/y": "->../a/x"}, []string{"a/x", "b/y"}, "", nil},
		"chain":                {map[string]string{"x": "1", "l1": "->l2", "l2": "->./l3", "l3": "->x"}, []string{"l1", "l2", "l3", "x"}, "", nil},
		"through a link":       {map[string]string{"a/b/x": "1", "a/y": "2", "l": "->a/b", "m": "->l/../y"}, []string{"a/b/x", "a/y", "l/x", "m"}, "", nil},
		"to the root and down": {map[string]string{"a/l": "->../b/x", "b/x": "1"}, []string{"a/l", "b/x"}, "", nil},
		"absolute":             {map[string]string{"l": "->/etc/passwd"}, nil, "l", ErrLinkOutside},
		"above the root":       {map[string]string{"a/l": "->../../x"}, nil, "a/l", ErrLinkOutside},
		"out and back in":      {map[string]string{"a/l": "->../../repo/x", "x": "1"}, nil, "a/l", ErrLinkOutside},
		"out through a link":   {map[string]string{"a/b/x": "1", "l": "->a/b", "m": "->l/../../../x"}, nil, "m", ErrLinkOutside},
		"dangling":             {map[string]string{"l": "->gone"}, nil, "l", ErrLinkDangling},
		"below a file":         {map[string]string{"x": "1", "l": "->x/y"}, nil, "l", ErrLinkDangling},
		"above a file":         {map[string]string{"x": "1", "l": "->x/../x"}, nil, "l", ErrLinkDangling},
		"to itself":            {map[string]string{"l": "->l"}, nil, "l", ErrLinkLoop},
		"loop of two":          {map[string]string{"l": "->m", "m": "->l"}, nil, "l", ErrLinkLoop},
		"to its own directory": {map[string]string{"a/l": "->.", "a/x": "1"}, nil, "a/l", ErrLinkLoop},
		"to the root":          {map[string]string{"a/l": "->..", "x": "1"}, nil, "a/l", ErrLinkLoop},
		"into each other":      {map[string]string{"a/l": "->../b", "b/m": "->../a"}, nil, "a/l/m", ErrLinkLoop},
		"into Git's own files": {map[string]string{"l": "->.git/config"}, nil, "l", ErrLinkDangling},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files, err := treeOf(t, tt.entries).Files(Ignore{})
			if tt.wantErr == nil {
				if err != nil || !slices.Equal(paths(files), tt.want) {
					t.Errorf("files %v, %v; want %v", paths(files), err, tt.want)
				}
				return
			}
			var refused *LinkError
			if !errors.Is(err, tt.wantErr) || !errors.As(err, &refused) || refused.Path != tt.wantRefused {
				t.Errorf("error %v, want %q to be refused because %v", err, tt.wantRefused, tt.wantErr)
			}
		})
	}
}

// TestLinksThatMultiply: links to directories can double the tree at each level; that ends with an error in time.
func TestLinksThatMultiply(t *testing.T) {
	entries := map[string]string{"d0/x": "1"}
	for i := 1; i < 40; i++ {
		entries[fmt.Sprintf("d%d/a", i)] = fmt.Sprintf("->../d%d", i-1)
		entries[fmt.Sprintf("d%d/b", i)] = fmt.Sprintf("->../d%d", i-1)
	}
	if files, err := treeOf(t, entries).Files(Ignore{}); err == nil {
		t.Errorf("%d files, want an error", len(files))
	}
}

func TestTreeRefusesPathsThatAreNotPlain(t *testing.T) {
	for _, p := range []string{"", ".", "..", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", "a\x00b"} {
		if err := NewTree().Add(p, TextEntry("")); err == nil {
			t.Errorf("%q was added", p)
		}
	}
	tree := treeOf(t, map[string]string{"a": "1", "d/x": "2"})
	for _, p := range []string{"a", "a/b", "d"} {
		if err := tree.Add(p, TextEntry("")); err == nil {
			t.Errorf("%q was added beside what is there", p)
		}
	}
	if err := NewTree().Add("l", LinkEntry("")); err == nil {
		t.Error("a link to nothing was added")
	}
}

func TestIgnore(t *testing.T) {
	text := func(s string) *string { return &s }
	tests := map[string]struct {
		entries map[string]string
		spec    *string
		want    []string
	}{
		"defaults": {
			entries: map[string]string{
				"a.yaml": "", ".gitignore": "", "logo.png": "", "x/movie.flv": "", ".github/workflows/ci.yaml": "",
				".sops.yaml": "", "x/.sops.yaml": "", ".gitmodules": "",
			},
			want: []string{"a.yaml"},
		},
		"own file instead of the defaults": {
			entries: map[string]string{".sourceignore": "*.md\n# comment\n\n", "a.yaml": "", "r.md": "", "logo.png": "", ".gitignore": ""},
			want:    []string{".sourceignore", "a.yaml", "logo.png"},
		},
		"file in a directory is for that directory": {
			entries: map[string]string{"d/.sourceignore": "*.yaml", "d/a.yaml": "", "a.yaml": ""},
			want:    []string{"a.yaml", "d/.sourceignore"},
		},
		"spec wins": {
			entries: map[string]string{".sourceignore": "!keep.yaml\n", "keep.yaml": "", "deploy/a.yaml": ""},
			spec:    text("/*\n!/deploy"),
			want:    []string{"deploy/a.yaml"},
		},
		"empty spec means the defaults": {
			entries: map[string]string{"a.yaml": "", "logo.png": ""},
			spec:    text(""),
			want:    []string{"a.yaml"},
		},
		"link that leads out, ignored": {
			entries: map[string]string{".sourceignore": "/out\n", "out": "->/etc", "a.yaml": ""},
			want:    []string{".sourceignore", "a.yaml"},
		},
		"link to a directory, ignored as one": {
			entries: map[string]string{".sourceignore": "loop/\n", "d/loop": "->..", "a.yaml": ""},
			want:    []string{".sourceignore", "a.yaml"},
		},
		"names under a link are what counts": {
			entries: map[string]string{".sourceignore": "/l/x\n", "d/x": "", "d/y": "", "l": "->d"},
			want:    []string{".sourceignore", "d/x", "d/y", "l/y"},
		},
		"ignore file that is a link": {
			entries: map[string]string{".sourceignore": "->rules", "rules": "*.md", "a.md": "", "a.yaml": ""},
			want:    []string{".sourceignore", "a.yaml", "rules"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree := treeOf(t, tt.entries)
			ignore, err := tree.Ignore(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			files, err := tree.Files(ignore)
			if err != nil || !slices.Equal(paths(files), tt.want) {
				t.Errorf("files %v, %v; want %v", paths(files), err, tt.want)
			}
		})
	}
}

// TestLinkProperties: whatever links say, every file of an artifact is one of the tree's own files, and its path is
// plain.
func TestLinkProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := NewTree()
		own := map[*Entry]bool{}
		segment := rapid.SampledFrom([]string{"a", "b", "c"})
		step := rapid.SampledFrom([]string{"a", "b", "c", "..", ".", "", "/"})
		for range rapid.IntRange(1, 12).Draw(rt, "entries") {
			name := strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(rt, "path"), "/")
			e := TextEntry(name)
			if rapid.Bool().Draw(rt, "link") {
				e = LinkEntry(strings.Join(rapid.SliceOfN(step, 1, 4).Draw(rt, "target"), "/"))
			}
			// Paths that are taken are refused, which is fine here.
			_ = tree.Add(name, e)
		}
		collectEntries(&tree.root, own)
		files, err := tree.Files(Ignore{})
		if err != nil {
			return
		}
		for _, f := range files {
			if !own[f.Entry] || f.Target != "" || path.Clean("/"+f.Path) != "/"+f.Path {
				rt.Fatalf("file %q is not one of the tree", f.Path)
			}
		}
		if !slices.IsSorted(paths(files)) {
			rt.Fatalf("files are not sorted: %v", paths(files))
		}
	})
}

func collectEntries(n *node, into map[*Entry]bool) {
	if n.entry != nil {
		into[n.entry] = true
	}
	for _, child := range n.children {
		collectEntries(child, into)
	}
}
