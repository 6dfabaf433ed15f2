package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fault is a deliberate fault.
type fault struct {
	// name is that of its file, and story says what is wrong.
	name, story string
	changes     []change
}

type change struct{ file, old, replacement string }

var block = regexp.MustCompile(`(?s)file: ([^\n]+)\n<<<<<<<\n(.*?)=======\n(.*?)>>>>>>>\n`)

// readFaults reads the faults of a directory, by name.
func readFaults(dir string) ([]fault, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	faults := make([]fault, 0, len(files))
	for _, file := range files {
		f, err := readFault(file)
		if err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	return faults, nil
}

func readFault(file string) (fault, error) {
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

// isNamed tells whether the fault is one of those that were asked for.
func (f fault) isNamed(only []string) bool {
	return len(only) == 0 || slices.ContainsFunc(only, func(part string) bool { return strings.Contains(f.name, part) })
}

// told is the story in a table.
func (f fault) told() string { return strings.TrimSuffix(f.story, ".") }

// packages are those that the fault is in, in the form of the go command.
func (f fault) packages() []string {
	var dirs []string
	for _, c := range f.changes {
		dirs = append(dirs, "./"+filepath.ToSlash(filepath.Dir(c.file)))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// changed returns the files of a tree that the fault changes, as it makes them.
func (f fault) changed(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, c := range f.changes {
		file := filepath.Join(root, c.file)
		if changed[file] == nil {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("it does not fit: %w", err)
			}
			changed[file] = text
		}
		old, replacement := strings.TrimSuffix(c.old, "\n"), strings.TrimSuffix(c.replacement, "\n")
		if n := bytes.Count(changed[file], []byte(old)); n != 1 {
			return nil, fmt.Errorf("it does not fit: its text occurs %d times in %s:\n%s", n, c.file, old)
		}
		changed[file] = bytes.Replace(changed[file], []byte(old), []byte(replacement), 1)
	}
	return changed, nil
}

// overlay writes into a directory what makes the go command see the fault in the current directory. The tree itself stays as it is.
func (f fault) overlay(dir string) (file string, err error) {
	changed, err := f.changed(".")
	if err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for path, text := range changed {
		faulty := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replaced), filepath.Base(path)))
		if err := os.WriteFile(faulty, text, 0o600); err != nil {
			return "", err
		}
		replaced[path] = faulty
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
