package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// page is the table of what finds which fault, as it stands in the documentation. A run replaces what it looked at and keeps
// the rest, so that a few faults can be tried again, and a run that was ended can be taken up.
type page struct {
	file string
	// found has for each fault and check the words of the check, none where it saw nothing; without an entry where nobody looked.
	found map[string]map[string]string
}

// The cells of what saw nothing, and of what was not run.
const (
	nothing = "-"
	notRun  = "?"
)

// columns are the parts of a line with a fault: empty, name, story, one for each check, empty.
var columns = 4 + len(allChecks)

func readPage(file string) (page, error) {
	p := page{file: file, found: map[string]map[string]string{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != columns || strings.HasPrefix(line, "| fault ") || strings.HasPrefix(line, "|-") {
			continue
		}
		for i, c := range allChecks {
			switch words := strings.TrimSpace(cells[3+i]); words {
			case notRun:
			case nothing:
				p.note(strings.TrimSpace(cells[1]), c.name, "")
			default:
				p.note(strings.TrimSpace(cells[1]), c.name, words)
			}
		}
	}
	return p, nil
}

// note enters what a check said of a fault.
func (p page) note(fault, check, words string) {
	if p.found[fault] == nil {
		p.found[fault] = map[string]string{}
	}
	p.found[fault][check] = strings.ReplaceAll(words, "|", "/")
}

// isLooked tells whether the page has an answer of each of the checks.
func (p page) isLooked(f fault, checks []check) bool {
	for _, c := range checks {
		if _, ok := p.found[f.name][c.name]; !ok {
			return false
		}
	}
	return true
}

const pageHead = `# Deliberate faults, and what finds them

` + "`make mutants`" + ` compiles the source with each of these faults in turn, and runs the unit tests and the simulation on it. A fault that
neither finds would be a check that is missing. The page is written by that command.

The columns name the first unit test that fails, and the first invariant that the simulation sees broken within %d steps. A dash
says that the check does not see the fault: the simulation has no model of the matter, or the fault is not in one function. A
question mark says that the check was not run on it.

| fault | what is wrong | unit test | simulation |
|---|---|---|---|
`

// write stores the page with all the faults that there are.
func (p page) write(all []fault) error {
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, simulatedSteps)
	finds := map[string]int{}
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %s |", f.name, f.told())
		for _, c := range allChecks {
			words, ran := p.found[f.name][c.name]
			switch {
			case !ran:
				words = notRun
			case words == "":
				words = nothing
			default:
				finds[c.name]++
			}
			fmt.Fprintf(&b, " %s |", words)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%d faults: the unit tests find %d of them, the simulation finds %d.\n", len(all), finds["unit"], finds["simulation"])
	return os.WriteFile(p.file, []byte(b.String()), 0o644) //nolint:gosec // a page for everyone
}
