// Command parity writes docs/parity.md: what Flux's kustomize-controller does, line by line, and for each line the tests that
// name it and the section of docs/guide/differences-from-flux.md that decided something else.
//
// The lines are those of lines.txt. A test names a line by its number, as in P17: in a comment of the test, at the start of its
// name (TestP17Links), or at the start of a text in it, such as the name of a subtest. A difference names it anywhere in its
// section. P17-P19 are three lines. A number that is not in the list is an error, and so is one in a test file outside of a test,
// where it would be claimed by nobody.
//
// Usage: parity, from the root of the repository.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	listFile        = "test/parity/lines.txt"
	pageFile        = "docs/parity.md"
	differencesFile = "docs/guide/differences-from-flux.md"
)

// testDirs are searched for tests that name lines. The tests of this package name lines that are made up.
var testDirs = []string{"api", "cmd", "internal", "test"}

// run returns the page for a checkout of the repository.
func run(root string) (string, error) {
	lines, err := readLines(filepath.Join(root, listFile))
	if err != nil {
		return "", err
	}
	tests, err := findTests(root, testDirs)
	if err != nil {
		return "", err
	}
	differences, err := findDifferences(filepath.Join(root, differencesFile))
	if err != nil {
		return "", err
	}
	if err := errors.Join(unknown(lines, tests), unknown(lines, differences)); err != nil {
		return "", err
	}
	return page(lines, tests, differences), nil
}

func main() {
	text, err := run(".")
	if err == nil {
		err = os.WriteFile(pageFile, []byte(text), 0o644) //nolint:gosec // a page for everyone
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
