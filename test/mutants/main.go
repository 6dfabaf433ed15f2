// Command mutants puts deliberate faults into the source, one at a time and without changing a file, and tells which checks
// find each. A fault that no check finds is a check that is missing, and the command fails.
//
// A fault is a file in test/mutants/faults: a line that says what is wrong, and texts to replace. Each text has to occur
// exactly once, so that a fault that no longer fits the source is an error and not a success; a test of this package says so
// without running anything. What was found is written into docs/mutants.md.
//
// Usage: mutants [-checks unit,simulation] [-resume] [fault...]. Faults are names or parts of names; none means all. With
// -resume, those that the page has an answer for are left out, so that a run that was ended is taken up.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	faultsDir = "test/mutants/faults"
	pageFile  = "docs/mutants.md"
)

// run tries the faults that are chosen.
func run(chosen func(fault, page) bool, checks []check) error {
	faults, err := readFaults(faultsDir)
	if err != nil {
		return err
	}
	found, err := readPage(pageFile)
	if err != nil {
		return err
	}
	if err := pass(checks); err != nil {
		return err
	}
	var errs []error
	for _, f := range faults {
		if !chosen(f, found) {
			continue
		}
		if err := try(f, checks, found); err != nil {
			fmt.Printf("%-32s %v\n", f.name, err)
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
		if err := found.write(faults); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// pass runs the checks without a fault. They have to pass before any of their failures can mean something.
func pass(checks []check) error {
	for _, c := range checks {
		if words, err := c.look("", nil); err != nil || words != "" {
			return errors.Join(fmt.Errorf("the check %q fails without any fault: %s", c.name, words), err)
		}
	}
	return nil
}

var errSurvives = errors.New("SURVIVES, no check finds it")

// try lets the checks look for one fault.
func try(f fault, checks []check, found page) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // rubbish in a temporary directory if that fails
	overlay, err := f.overlay(dir)
	if err != nil {
		return err
	}
	began, line, seen := time.Now(), fmt.Sprintf("%-32s", f.name), false
	for _, c := range checks {
		words, err := c.look(overlay, f.packages())
		if err != nil {
			return err
		}
		found.note(f.name, c.name, words)
		seen = seen || words != ""
		if words == "" {
			words = nothing
		}
		line += fmt.Sprintf(" %s: %-40s", c.name, words)
	}
	fmt.Printf("%s (%s)\n", line, time.Since(began).Round(time.Second))
	if !seen {
		return fmt.Errorf("%w: %s", errSurvives, f.story)
	}
	return nil
}

// choose returns the checks of the given names, all for none.
func choose(names string) ([]check, error) {
	if names == "" {
		return allChecks, nil
	}
	var chosen []check
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(allChecks, func(c check) bool { return c.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no check is called %q", name)
		}
		chosen = append(chosen, allChecks[i])
	}
	return chosen, nil
}

func main() {
	names := flag.String("checks", "", "the checks to run, separated by commas: unit, simulation; empty for all")
	resume := flag.Bool("resume", false, "leave out the faults that docs/mutants.md has an answer for")
	flag.Parse()
	checks, err := choose(*names)
	if err == nil {
		err = run(func(f fault, found page) bool {
			return f.isNamed(flag.Args()) && !(*resume && found.isLooked(f, checks))
		}, checks)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
