package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// check is something that has to fail when there is a fault.
type check struct {
	name string
	// args are those of the go command.
	args []string
	// packages are what it is about. With near, those that the fault is in are tried alone first, which is faster.
	packages []string
	near     bool
	env      []string
}

// simulatedSteps are fewer than those of all fixed seeds, so that each run is the same.
const simulatedSteps = 60_000

// allChecks are run in order, the fastest first.
var allChecks = []check{
	{
		name: "unit", args: []string{"test", "-vet=off", "-timeout=5m"}, near: true,
		packages: []string{"./internal/plan", "./internal/usage", "./internal/inventory", "./internal/object", "./internal/policy", "./internal/scope",
			"./internal/health", "./internal/observe", "./internal/execute", "./internal/build", "./internal/revision", "./internal/target",
			"./internal/controller/..."},
	},
	{
		name: "simulation", args: []string{"test", "-vet=off", "-count=1", "-timeout=5m", "-run=^TestSimulation$"},
		packages: []string{"./test/simulation"},
		env:      []string{"SIM=1", fmt.Sprintf("STEPS=%d", simulatedSteps)},
	},
}

var errNotCompiled = errors.New("it does not compile, which proves nothing")

// look runs the check on the source with an overlay, which has a fault in some packages. It returns the check's first words
// about the fault, or nothing if it sees none.
func (c check) look(overlay string, faulty []string) (words string, err error) {
	if c.near && len(faulty) > 0 {
		if words, err := c.run(overlay, faulty); err != nil || words != "" {
			return words, err
		}
	}
	return c.run(overlay, c.packages)
}

func (c check) run(overlay string, packages []string) (words string, err error) {
	args := append(slices.Clone(c.args), "-overlay="+overlay)
	cmd := exec.Command("go", append(args, packages...)...) //nolint:gosec // the arguments are those above
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return "", nil
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("%w: %s", errNotCompiled, firstWords(out))
	}
	return firstWords(out), nil
}

// telling are the lines of an output that say most, the best first, each with the part of it that is shown.
var telling = []*regexp.Regexp{
	regexp.MustCompile(`(?m)seed \d+: step \d+: ([^:\n]+): `), // the invariant that a simulation broke
	regexp.MustCompile(`(?m)^--- FAIL: (Test\w+)`),
	regexp.MustCompile(`(?m)^--- FAIL: (Fuzz\w+)`),
	regexp.MustCompile(`(?m)^panic: (test timed out)`),
	regexp.MustCompile(`(?m)^(panic: .*)$`),
	regexp.MustCompile(`(?m)(\S+\.go:\d+:\d+: .*)$`),
}

// maxWords bounds what is shown of an output that nobody expected.
const maxWords = 160

func firstWords(out []byte) string {
	for _, t := range telling {
		if m := t.FindSubmatch(out); m != nil {
			return string(m[1])
		}
	}
	text := strings.TrimSpace(string(out))
	return text[:min(len(text), maxWords)]
}
