package simulation

import (
	"math/rand/v2"
	"os"
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

// TestSimulation is `make sim`. SEED replays one run; else STEPS is how many steps to run for, two minutes if it is empty.
func TestSimulation(t *testing.T) {
	if os.Getenv("SIM") == "" {
		t.Skip("run it with `make sim`")
	}
	const perRun = 2000
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
	total, began, first := NewStats(), time.Now(), rand.Uint64N(1<<40) //nolint:gosec // fresh seeds, each of which is printed when it fails
	t.Logf("seeds: 0-99, then from %d on", first)
	runs := 0
	for i := uint64(0); (steps > 0 && total.Steps < steps) || (steps == 0 && time.Since(began) < 2*time.Minute); i++ {
		seed := i
		if i >= 100 {
			seed = first + i
		}
		total.Add(simulate(t, Options{Seed: seed, Steps: perRun, Rate: -1}.Defaults()))
		runs++
		if t.Failed() {
			break
		}
	}
	elapsed := time.Since(began)
	t.Logf("%d runs in %s, %.0f steps/s\n%s", runs, elapsed.Round(time.Second), float64(total.Steps)/elapsed.Seconds(), total)
}

// historyLines bounds the history of a failing run.
const historyLines = 60

func simulate(t *testing.T, o Options) *Stats {
	t.Helper()
	r := Run(o)
	if r.Violation == nil {
		return r.Stats
	}
	simplest := Shrink(o)
	if file := os.Getenv("HISTORY"); file != "" {
		if err := os.WriteFile(file, []byte(strings.Join(simplest.Trace, "\n")+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	t.Errorf("seed %d: %v\nreplay: make sim SEED=%d\nsimplest: faults %q, rate %d%%: %v\n%s", o.Seed, r.Violation, o.Seed,
		simplest.Options.Faults, o.Rate, simplest.Violation,
		strings.Join(simplest.Trace[max(0, len(simplest.Trace)-historyLines):], "\n"))
	return r.Stats
}
