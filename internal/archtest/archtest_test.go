// Package archtest holds the rule that makes the decisions of holdfast testable: some packages are pure.
//
// A pure package computes its result from its arguments alone. It has no context, no clock, no client, no logger, no
// randomness and no goroutine, so that the same facts always give the same decision. The tests here read the imports and
// the syntax of those packages and of every package of this module that they import.
package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-gitops/holdfast"

// purePackages are the packages that must be pure, as directories below the root. One without Go files is an error: a
// renamed package must not fall out of the rule.
var purePackages = []string{
	"api/v1",
	"internal/object",
	"internal/usage",
	"internal/health",
	"internal/plan",
	"internal/blame",
	"internal/policy",
	"internal/inventory",
	"internal/expression",
	"internal/rival",
}

// forbiddenImports may not be imported by a pure package, nor anything below them.
var forbiddenImports = []string{
	"context",
	"log",
	"math/rand",
	"net",
	"os",
	"sync",
	"github.com/fluxcd/pkg/runtime",
	"github.com/fluxcd/pkg/ssa",
	"github.com/go-logr",
	"github.com/prometheus",
	"go.uber.org/zap",
	"k8s.io/apimachinery/pkg/util/wait",
	"k8s.io/client-go",
	"k8s.io/klog",
	"sigs.k8s.io/controller-runtime",
}

// forbiddenCalls are functions that read the clock or wait.
var forbiddenCalls = []string{
	"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.Tick", "time.NewTimer",
	"time.NewTicker", "metav1.Now", "v1.Now",
}

func TestPurePackagesImportNothingImpure(t *testing.T) {
	root := moduleRoot(t)
	for _, dir := range withImports(t, root, purePackages) {
		t.Run(dir, func(t *testing.T) {
			for _, problem := range impurities(parsePackage(t, root, dir)) {
				t.Error(problem)
			}
		})
	}
}

// The rule is worth as much as what it finds.
func TestImpuritiesAreFound(t *testing.T) {
	tests := map[string]struct {
		source string
		want   int
	}{
		"pure":                  {source: `package p; import ("sort"; "time"); var D = time.Second; var _ = sort.Strings`, want: 0},
		"context":               {source: `package p; import _ "context"`, want: 1},
		"below a forbidden one": {source: `package p; import _ "sigs.k8s.io/controller-runtime/pkg/client"`, want: 1},
		"only a common prefix":  {source: `package p; import _ "k8s.io/client-gopher"`, want: 0},
		"clock":                 {source: `package p; import "time"; var T = time.Now()`, want: 1},
		"clock, renamed":        {source: `package p; import clock "time"; var T = clock.Now()`, want: 1},
		"clock as a value":      {source: `package p; import "time"; var T = time.Now`, want: 1},
		"Kubernetes' clock":     {source: `package p; import m "k8s.io/apimachinery/pkg/apis/meta/v1"; var T = m.Now()`, want: 1},
		"goroutine":             {source: `package p; func f() { go f() }`, want: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, "p.go", test.source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			got := impurities(parsed{files: files, syntax: []*ast.File{file}})
			if len(got) != test.want {
				t.Errorf("found %d impurities, want %d: %v", len(got), test.want, got)
			}
		})
	}
}

// parsed is the syntax of a package without its tests.
type parsed struct {
	files  *token.FileSet
	syntax []*ast.File
}

// impurities returns what breaks the rule, each with its place.
func impurities(p parsed) []string {
	var found []string
	for _, file := range p.syntax {
		names := map[string]string{}
		for _, spec := range file.Imports {
			target := importPath(spec)
			names[localName(spec, target)] = target
			for _, forbidden := range forbiddenImports {
				if target == forbidden || strings.HasPrefix(target, forbidden+"/") {
					found = append(found, fmt.Sprintf("%s: imports %s", p.files.Position(spec.Pos()), target))
				}
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if problem := impureNode(node, names); problem != "" {
				found = append(found, fmt.Sprintf("%s: %s", p.files.Position(node.Pos()), problem))
			}
			return true
		})
	}
	return found
}

// impureNode says what is wrong with a node of the syntax; names maps local names to import paths.
func impureNode(node ast.Node, names map[string]string) string {
	switch n := node.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.SelectorExpr:
		qualifier, ok := n.X.(*ast.Ident)
		if !ok || names[qualifier.Name] == "" {
			return ""
		}
		call := path.Base(names[qualifier.Name]) + "." + n.Sel.Name
		if slices.Contains(forbiddenCalls, call) {
			return "reads the clock or waits with " + call
		}
	}
	return ""
}

func importPath(spec *ast.ImportSpec) string {
	target, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return target
}

func localName(spec *ast.ImportSpec, target string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(target)
}

// withImports returns the directories and those of all packages of this module that they import.
func withImports(t *testing.T, root string, dirs []string) []string {
	t.Helper()
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, file := range parsePackage(t, root, dir).syntax {
			for _, spec := range file.Imports {
				if below, ok := strings.CutPrefix(importPath(spec), module+"/"); ok {
					visit(below)
				}
			}
		}
	}
	for _, dir := range dirs {
		visit(dir)
	}
	all := make([]string, 0, len(seen))
	for dir := range seen {
		all = append(all, dir)
	}
	slices.Sort(all)
	return all
}

// parsePackage reads the Go files of a directory, without tests. A directory without Go files fails the test.
func parsePackage(t *testing.T, root, dir string) parsed {
	t.Helper()
	p := parsed{files: token.NewFileSet()}
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(p.files, filepath.Join(root, dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.syntax = append(p.syntax, file)
	}
	if len(p.syntax) == 0 {
		t.Fatalf("package %s has no Go files: if it was renamed, rename it in purePackages too", dir)
	}
	return p
}

// moduleRoot is the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}
