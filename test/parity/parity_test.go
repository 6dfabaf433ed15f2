package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNumbersIn(t *testing.T) {
	for text, want := range map[string][]int{
		"P01, P17: something": {1, 17},
		"P187-P189":           {187, 188, 189},
		"P02 – P04 and P09":   {2, 3, 4, 9},
		"C46, XP10, P1, P-11": nil,
		"P1234":               nil,
	} {
		if got := numbersIn(text); !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", text, got, want)
		}
	}
}

const source = `package x

// P01: in the comment of a test.
func TestDoc(t *testing.T) {
	// P02 in a comment of its own, and P02 again
	t.Run("P03 P04 as a name", nil)
	use("text that says P05", ` + "`P06`" + `) // P07
	for range map[string]int{"P08 an entry": 1} {
	}
}

func TestP12Name(t *testing.T) {}

func TestOfP13(t *testing.T) {}
`

func TestAddTests(t *testing.T) {
	found := mentions{}
	if err := found.addTests("a/x_test.go", []byte(source)); err != nil {
		t.Fatal(err)
	}
	want := []int{1, 2, 3, 4, 6, 7, 8, 12}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("named are %v, want %v", got, want)
	}
	if got := found[2]; !reflect.DeepEqual(got, []mention{{name: "TestDoc", link: "../a/x_test.go"}}) {
		t.Errorf("P02 is named by %v", got)
	}
	err := mentions{}.addTests("a/x_test.go", []byte("package x\n\n// P10: of a helper.\nfunc help() { use(\"P11\") }\n\nfunc (s *x) TestMethod() {} // P12\n"))
	for _, place := range []string{"a/x_test.go:3:1 names P10 outside of a test", "a/x_test.go:4:19 names P11", "names P12"} {
		if err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("the error is %v, want %s", err, place)
		}
	}
}

func TestReadLines(t *testing.T) {
	tests := map[string]struct{ text, problem string }{
		"good":      {text: "# One\n\nP01 ◆ first\nP02 second\n"},
		"gap":       {text: "P01 first\nP03 third\n", problem: "P03 stands where P02 belongs"},
		"twice":     {text: "P01 first\nP01 first\n", problem: "P01 stands where P02 belongs"},
		"no number": {text: "first\n", problem: "neither a heading nor a line"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			lines, err := readLines(write(t, tt.text))
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("the error is %v, want %s", err, tt.problem)
				}
				return
			}
			want := []line{{number: 1, section: "One", contract: true, text: "first"}, {number: 2, section: "One", text: "second"}}
			if err != nil || !reflect.DeepEqual(lines, want) {
				t.Errorf("%v, %v, want %v", lines, err, want)
			}
		})
	}
}

func TestPage(t *testing.T) {
	differences, err := findDifferences(write(t, "# Differences\n\n## When it rains\n\n| a | b (P02) |\n"))
	if err != nil {
		t.Fatal(err)
	}
	lines := []line{{number: 1, section: "S", contract: true, text: "one"}, {number: 2, section: "S", text: "two"}, {number: 3, section: "S", text: "three"}}
	tests := mentions{1: {{name: "TestA", link: "../a_test.go"}, {name: "TestB", link: "../b_test.go"}}}
	got := page(lines, tests, differences)
	for _, want := range []string{
		"3 lines: 1 with a test, 1 decided differently (0 of them with a test), 1 open.\n",
		"## S\n",
		"| P01 ◆ | one | [`TestA`](../a_test.go), [`TestB`](../b_test.go) |  |\n",
		"| P02 | two |  | [When it rains](guide/page.md#when-it-rains) |\n",
		"| P03 | three | **open** |  |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if err := unknown(lines, mentions{4: {{name: "TestC"}}}); err == nil || !strings.Contains(err.Error(), "TestC names P04, which is not in ") {
		t.Errorf("an unknown number: %v", err)
	}
}

// The page of the repository can be made: every number that is named is in the list.
func TestRepository(t *testing.T) {
	text, err := run("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "| P73 ◆ |") {
		t.Errorf("the page lacks P73:\n%s", text)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
