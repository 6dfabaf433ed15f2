package main

import (
	"fmt"
	"strings"
)

const pageHead = `# Parity with Flux

What kustomize-controller does, as a user or a tool sees it from outside, and what shows that holdfast does the same: the tests
that name the line. Where holdfast decided something else, the last column has the section of the
[differences](guide/differences-from-flux.md) with the reason. ◆ marks what other software reads. Open means that nothing names the
line: it may hold, but no test says so.

The page is written by ` + "`make generate`" + ` from the tests and from ` + "`%s`" + `; [how to name a line](../CONTRIBUTING.md#parity).

%d lines: %d with a test, %d decided differently (%d of them with a test), %d open.
`

// page renders the lines with what names them.
func page(lines []line, tests, differences mentions) string {
	var b strings.Builder
	tested, different, both, open := 0, 0, 0, 0
	for _, l := range lines {
		t, d := len(tests[l.number]) > 0, len(differences[l.number]) > 0
		tested += count(t)
		different += count(d)
		both += count(t && d)
		open += count(!t && !d)
	}
	fmt.Fprintf(&b, pageHead, listFile, len(lines), tested, different, both, open)
	section := ""
	for _, l := range lines {
		if l.section != section {
			section = l.section
			fmt.Fprintf(&b, "\n## %s\n\n| no. | Flux | tests | decided differently |\n|---|---|---|---|\n", section)
		}
		mark := ""
		if l.contract {
			mark = " ◆"
		}
		cell := links(tests[l.number], "`")
		if cell == "" && len(differences[l.number]) == 0 {
			cell = "**open**"
		}
		fmt.Fprintf(&b, "| P%02d%s | %s | %s | %s |\n", l.number, mark, l.text, cell, links(differences[l.number], ""))
	}
	return b.String()
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func links(places []mention, quote string) string {
	texts := make([]string, 0, len(places))
	for _, p := range places {
		texts = append(texts, fmt.Sprintf("[%[1]s%[2]s%[1]s](%[3]s)", quote, p.name, p.link))
	}
	return strings.Join(texts, ", ")
}
