package simulation

import (
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The short version, with seeds that are always the same.
func TestFixedSeeds(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 10
	}
	for seed := range runs {
		simulate(t, Options{Seed: uint64(seed), Steps: 1500, Rate: -1}.Defaults()) //nolint:gosec // small
	}
}

// perRun is the number of steps of a run before its faults end.
const perRun = 2000

// TestSimulation is `make sim`. SEED replays one run; else STEPS is how many steps to run for, two minutes if it is empty; FROM is the first of the seeds after 0 to 99, for a run to be repeated.
func TestSimulation(t *testing.T) {
	if os.Getenv("SIM") == "" {
		t.Skip("run it with `make sim`")
	}
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SEED: %v", err)
		}
		t.Log(simulate(t, Options{Seed: seed, Steps: perRun, Rate: -1}.Defaults()))
		return
	}
	steps, err := strconv.ParseInt("0"+os.Getenv("STEPS"), 10, 64)
	if err != nil {
		t.Fatalf("STEPS: %v", err)
	}
	first := uint64(0)
	if text := os.Getenv("FROM"); text != "" {
		if first, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FROM: %v", err)
		}
	} else {
		first = rand.Uint64N(1 << 40) //nolint:gosec // fresh seeds, each of which is printed when it fails
	}
	runLong(t, first, steps)
}

// tell is the number of steps after which a long run tells how far it is.
const tell = 100_000

// runLong runs the seeds from 0 to 99 and then those from first on, for a number of steps or, if that is zero, two minutes.
func runLong(t *testing.T, first uint64, steps int64) {
	t.Helper()
	// Most of what a run makes is garbage after its next step, and little of it is in use at a time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	total, began, told := NewStats(), time.Now(), int64(0)
	t.Logf("seeds: 0-99, then from %d on", first)
	sum := func(runs int) {
		elapsed := time.Since(began)
		t.Logf("%d runs in %s, %.0f steps/s\n%s", runs, elapsed.Round(time.Second), float64(total.Steps)/elapsed.Seconds(), total)
	}
	runs := 0
	for !t.Failed() && ((steps > 0 && total.Steps < steps) || (steps == 0 && time.Since(began) < 2*time.Minute)) {
		seed := uint64(runs) //nolint:gosec // small
		if runs >= 100 {
			seed = first + uint64(runs-100) //nolint:gosec // likewise
		}
		total.Add(simulate(t, Options{Seed: seed, Steps: perRun, Rate: -1}.Defaults()))
		runs++
		if total.Steps/tell > told {
			told = total.Steps / tell
			sum(runs)
		}
	}
	sum(runs)
}

// historyLines bounds the history of a failing run.
const historyLines = 60

func simulate(t *testing.T, o Options) *Stats {
	t.Helper()
	r := Run(t, o)
	if r.Violation == nil {
		return r.Stats
	}
	simplest := Shrink(t, o)
	if file := os.Getenv("HISTORY"); file != "" {
		if err := os.WriteFile(file, []byte(strings.Join(simplest.Trace, "\n")+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	t.Errorf("seed %d: %v\nreplay: make sim SEED=%d\nsimplest: %d steps, %d events and faults, of %q: %v\n%s", o.Seed, r.Violation, o.Seed,
		simplest.Options.Steps, len(simplest.Happened), simplest.Options.Faults, simplest.Violation,
		strings.Join(simplest.Trace[max(0, len(simplest.Trace)-historyLines):], "\n"))
	return r.Stats
}

// One seed is one history, or no failure could be looked into.
func TestSameSeedSameHistory(t *testing.T) {
	o := Options{Seed: 7, Steps: 800, Rate: -1, Trace: true}.Defaults()
	first := Run(t, o).Trace
	for range 2 {
		again := Run(t, o).Trace
		for i := range first {
			if i >= len(again) || again[i] != first[i] {
				t.Fatalf("line %d of %d: %q, and then something else", i, len(first), first[i])
			}
		}
	}
}
