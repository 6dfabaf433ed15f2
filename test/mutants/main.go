// Command mutants puts deliberate faults into copies of the source, one at a time, and tells which test finds each. A fault
// that no test finds is a test that is missing, and the command fails.
//
// A fault is a file in test/mutants/faults: a line that says what is wrong, and texts to replace. Each text has to occur
// exactly once, so that a fault that no longer fits the source is an error and not a success.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// copied are the parts of the tree that the checks need.
var copied = []string{"api", "config", "internal", "test/simulation", "go.mod", "go.sum"}

// check is a command that has to fail for a fault.
type check struct {
	name string
	args []string
	env  []string
}

// checks run in order; the first that fails has found the fault.
var checks = []check{
	{"simulation", []string{"test", "-vet=off", "-count=1", "-run", "^TestSimulation$", "./test/simulation"}, []string{"SIM=1", "STEPS=400000"}},
	{"unit tests", []string{"test", "-vet=off", "-count=1", "./internal/plan", "./internal/usage", "./internal/inventory", "./internal/health",
		"./internal/observe", "./internal/execute", "./internal/controller/..."}, nil},
}

type change struct{ file, old, replacement string }

type fault struct {
	name, story string
	changes     []change
}

var block = regexp.MustCompile(`(?s)file: ([^\n]+)\n<<<<<<<\n(.*?)=======\n(.*?)>>>>>>>\n`)

func read(file string) (fault, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return fault{}, err
	}
	story, _, _ := strings.Cut(string(text), "\n")
	f := fault{name: strings.TrimSuffix(filepath.Base(file), ".txt"), story: story}
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		f.changes = append(f.changes, change{file: m[1], old: m[2], replacement: m[3]})
	}
	if len(f.changes) == 0 {
		return f, fmt.Errorf("read %s: it changes nothing", file)
	}
	return f, nil
}

// put applies the fault to a copy and returns what takes it back.
func (f fault) put(root string) (undo func() error, err error) {
	before := map[string][]byte{}
	for _, c := range f.changes {
		file := filepath.Join(root, c.file)
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if before[file] == nil {
			before[file] = text
		}
		old, replacement := strings.TrimSuffix(c.old, "\n"), strings.TrimSuffix(c.replacement, "\n")
		if n := bytes.Count(text, []byte(old)); n != 1 {
			return nil, fmt.Errorf("%s: its text occurs %d times in %s", f.name, n, c.file)
		}
		text = bytes.Replace(text, []byte(old), []byte(replacement), 1)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
	}
	return func() error {
		var errs []error
		for file, text := range before {
			errs = append(errs, os.WriteFile(file, text, 0o600))
		}
		return errors.Join(errs...)
	}, nil
}

// find names the check that finds what is wrong in a copy, and its first words about it; empty if none does. What does not
// even compile proves nothing.
func find(root string) (name, words string, err error) {
	for _, c := range checks {
		cmd := exec.Command("go", c.args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), c.env...)
		out, err := cmd.CombinedOutput()
		switch {
		case err != nil && bytes.Contains(out, []byte("[build failed]")):
			return "", "", fmt.Errorf("it does not compile: %s", firstWords(string(out)))
		case err != nil:
			return c.name, firstWords(string(out)), nil
		}
	}
	return "", "", nil
}

// telling are the lines of an output that say most, the best first.
var telling = []*regexp.Regexp{
	regexp.MustCompile(`(?m)seed \d+: .*$`), regexp.MustCompile(`(?m)--- FAIL: Test[^S].*$`), regexp.MustCompile(`(?m)\.go:\d+:\d+: .*$`),
}

func firstWords(out string) string {
	words := out
	for _, t := range telling {
		if line := t.FindString(out); line != "" {
			words = line
			break
		}
	}
	return strings.TrimSpace(words[:min(len(words), 160)])
}

func copyTree(from, to string) error {
	for _, part := range copied {
		err := filepath.WalkDir(filepath.Join(from, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(to, rel), text, 0o600)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func run(only []string) error {
	root, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root) // rubbish in a temporary directory if that fails
	if err := copyTree(".", root); err != nil {
		return err
	}
	if name, words, err := find(root); err != nil || name != "" {
		return errors.Join(fmt.Errorf("without any fault the checks fail: %s %s", name, words), err)
	}
	files, err := filepath.Glob("test/mutants/faults/*.txt")
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		f, err := read(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(only) > 0 && !slices.Contains(only, f.name) {
			continue
		}
		undo, err := f.put(root)
		if err != nil {
			fmt.Printf("%-30s does not fit: %v\n", f.name, err)
			errs = append(errs, err)
			continue
		}
		name, words, err := find(root)
		switch {
		case err != nil:
			fmt.Printf("%-30s %v\n", f.name, err)
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		case name == "":
			fmt.Printf("%-30s SURVIVES: %s\n", f.name, f.story)
			errs = append(errs, fmt.Errorf("%s: no check finds it", f.name))
		default:
			fmt.Printf("%-30s %s: %s\n", f.name, name, words)
		}
		if err := undo(); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
