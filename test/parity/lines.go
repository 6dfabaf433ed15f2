package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// line is one thing that Flux does.
type line struct {
	number  int
	section string
	// contract is true for what other software reads.
	contract bool
	text     string
}

var lineForm = regexp.MustCompile(`^P(\d{2,3}) (◆ )?(\S.*)$`)

// readLines reads the list. The numbers run from 1 without a gap, so that none can be left out unnoticed.
func readLines(file string) ([]line, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the list of lines: %w", err)
	}
	var lines []line
	section := ""
	for text := range strings.Lines(string(content)) {
		text = strings.TrimSpace(text)
		if heading, ok := strings.CutPrefix(text, "# "); ok {
			section = heading
			continue
		}
		if text == "" {
			continue
		}
		m := lineForm.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("%s: %q is neither a heading nor a line", file, text)
		}
		number, _ := strconv.Atoi(m[1]) // digits
		if number != len(lines)+1 {
			return nil, fmt.Errorf("%s: P%02d stands where P%02d belongs", file, number, len(lines)+1)
		}
		lines = append(lines, line{number: number, section: section, contract: m[2] != "", text: m[3]})
	}
	return lines, nil
}

// mention is a place that names a line: a test, or a section of the differences.
type mention struct {
	name string
	// link is relative to the page.
	link string
}

// mentions are the places that name each line, in order.
type mentions map[int][]mention

// add enters a place once for each number.
func (m mentions) add(numbers []int, place mention) {
	for _, n := range numbers {
		if had := m[n]; len(had) == 0 || had[len(had)-1] != place {
			m[n] = append(had, place)
		}
	}
}

var numberForm = regexp.MustCompile(`\bP(\d{2,3})\b(?: ?[-–] ?P(\d{2,3})\b)?`)

// numbersIn returns the numbers of the lines that a text names.
func numbersIn(text string) []int {
	var numbers []int
	for _, m := range numberForm.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[1]) // digits
		last, err := strconv.Atoi(m[2])
		if err != nil {
			last = first
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// unknown returns an error for each number that is named and not in the list.
func unknown(lines []line, named mentions) error {
	var errs []error
	for number, places := range named {
		if number < 1 || number > len(lines) {
			errs = append(errs, fmt.Errorf("%s names P%02d, which is not in %s", places[0].name, number, listFile))
		}
	}
	return errors.Join(errs...)
}
