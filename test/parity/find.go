package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// ownDir is not searched.
const ownDir = "test/parity"

// findTests returns the tests that name lines, in the order of their files.
func findTests(root string, dirs []string) (mentions, error) {
	found := mentions{}
	var errs []error
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			switch {
			case name == ownDir:
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := found.addTests(name, source); err != nil {
				errs = append(errs, err)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for tests: %w", err)
		}
	}
	return found, errors.Join(errs...)
}

// addTests enters the tests of one file.
func (m mentions) addTests(name string, source []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var errs []error
	note := func(at token.Pos, numbers []int) {
		if len(numbers) == 0 {
			return
		}
		test := testAt(file, at)
		if test == "" {
			errs = append(errs, fmt.Errorf("%s names P%02d outside of a test: name it in the test", files.Position(at), numbers[0]))
			return
		}
		m.add(numbers, mention{name: test, link: "../" + name})
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			m.add(numbersIn(strings.Join(inNames.FindStringSubmatch(f.Name.Name), " ")), mention{name: f.Name.Name, link: "../" + name})
		}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			note(comment.Pos(), numbersIn(comment.Text))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
			if value, err := strconv.Unquote(text.Value); err == nil {
				note(text.Pos(), numbersIn(leading.FindString(value)))
			}
		}
		return true
	})
	return errors.Join(errs...)
}

// leading are the numbers at the start of a text. Elsewhere in one they may be anything, such as part of a key.
var leading = regexp.MustCompile(`^(?:P\d{2,3}\b[ ,–-]*)+`)

// inNames is the number in the name of a test.
var inNames = regexp.MustCompile(`^Test(P\d{2,3})(?:\D|$)`)

// testAt returns the name of the test that a position is in, or whose comment it is in; empty for none.
func testAt(file *ast.File, at token.Pos) string {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		start := f.Pos()
		if f.Doc != nil {
			start = f.Doc.Pos()
		}
		if start <= at && at < f.End() {
			return f.Name.Name
		}
	}
	return ""
}

// findDifferences returns the sections that name lines.
func findDifferences(file string) (mentions, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the differences: %w", err)
	}
	found, heading := mentions{}, ""
	for text := range strings.Lines(string(content)) {
		if h, ok := strings.CutPrefix(text, "## "); ok {
			heading = strings.TrimSpace(h)
			continue
		}
		numbers := numbersIn(text)
		if len(numbers) > 0 && heading == "" {
			return nil, fmt.Errorf("%s names P%02d before its first section", file, numbers[0])
		}
		found.add(numbers, mention{name: heading, link: "guide/" + filepath.Base(file) + "#" + anchor(heading)})
	}
	return found, nil
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}
