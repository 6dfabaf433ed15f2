package main

import (
	"go/format"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const root = "../.."

func all(t *testing.T) []fault {
	t.Helper()
	faults, err := readFaults("faults")
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) == 0 {
		t.Fatal("there are no faults")
	}
	return faults
}

// Whoever changes a rule sees here which fault has to follow.
func TestEveryFaultFits(t *testing.T) {
	for _, f := range all(t) {
		changed, err := f.changed(root)
		if err != nil {
			t.Errorf("test/mutants/faults/%s.txt: %v", f.name, err)
			continue
		}
		for file, text := range changed {
			if _, err := format.Source(text); err != nil {
				t.Errorf("test/mutants/faults/%s.txt: %s does not parse any more: %v", f.name, file, err)
			}
		}
	}
}

// The page that `make mutants` writes has all faults and no other, and each of them was found.
func TestEveryFaultIsOnThePage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	found, err := readPage(filepath.Join(root, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	faults := all(t)
	for _, f := range faults {
		if !strings.Contains(string(text), "| "+f.name+" | "+f.told()+" |") {
			t.Errorf("%s does not say what %s is: run `make mutants FAULTS=%s`", pageFile, f.name, f.name)
		}
		if !isFound(found, f) {
			t.Errorf("%s has no check that finds %s: run `make mutants FAULTS=%s`", pageFile, f.name, f.name)
		}
		delete(found.found, f.name)
	}
	for name := range found.found {
		t.Errorf("%s speaks of %s, which there is not: run `make mutants`", pageFile, name)
	}
}

func isFound(p page, f fault) bool {
	for _, words := range p.found[f.name] {
		if words != "" {
			return true
		}
	}
	return false
}

// What a run did not look at stays as it is on the page.
func TestPageIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	faults := []fault{{name: "a", story: "One."}, {name: "b", story: "Two."}, {name: "c", story: "Three."}}
	p, err := readPage(file)
	if err != nil {
		t.Fatal(err)
	}
	p.note("a", "unit", "TestA|B")
	p.note("a", "simulation", "")
	p.note("b", "unit", "")
	p.note("gone", "unit", "TestGone")
	if err := p.write(faults); err != nil {
		t.Fatal(err)
	}
	got, err := readPage(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{"a": {"unit": "TestA/B", "simulation": ""}, "b": {"unit": ""}}
	if !reflect.DeepEqual(got.found, want) {
		t.Errorf("read back as %v, want %v", got.found, want)
	}
	for _, tt := range []struct {
		fault int
		names string
		want  bool
	}{{0, "", true}, {1, "unit", true}, {1, "", false}, {2, "unit", false}} {
		checks, err := choose(tt.names)
		if err != nil {
			t.Fatal(err)
		}
		if got.isLooked(faults[tt.fault], checks) != tt.want {
			t.Errorf("looked at %s with %q: want %t", faults[tt.fault].name, tt.names, tt.want)
		}
	}
	if _, err := choose("unit,other"); err == nil {
		t.Error("there is no check called other")
	}
}

func TestFirstWords(t *testing.T) {
	for name, tt := range map[string]struct{ out, want string }{
		"a test":       {"ok  	a/b	0.1s\n--- FAIL: TestDecode (0.00s)\n    --- FAIL: TestDecode/twice (0.00s)\n", "TestDecode"},
		"a simulation": {"--- FAIL: TestSimulation (7.05s)\n    simulation_test.go:49: seed 8: step 2342: never orphaned: ConfigMap/a/b is there\n", "never orphaned"},
		"a panic":      {"panic: oh no\n\ngoroutine 1\n", "panic: oh no"},
		"a timeout":    {"panic: test timed out after 5m0s\n", "test timed out"},
		"the compiler": {"# a/b\n./x.go:3:2: undefined: y\nFAIL\ta/b [build failed]\n", "./x.go:3:2: undefined: y"},
		"others":       {" what \n", "what"},
	} {
		if got := firstWords([]byte(tt.out)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
