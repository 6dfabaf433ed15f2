package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Options are what a run follows from.
type Options struct {
	// Seed of everything that is random.
	Seed uint64
	// Steps before all faults end.
	Steps int64
	// Faults are the kinds that may happen; nil draws them from the seed.
	Faults []fault
	// Rate is how many of 100 requests meet a fault; negative draws it from the seed.
	Rate int
	// Skip are events and faults, by number, that do not happen though they were drawn.
	Skip map[int64]bool
	// Trace keeps a history.
	Trace bool
}

// Stats add up over runs.
type Stats struct {
	// Steps, and the parts of it that were requests and events of the environment.
	Steps, Requests, Events int64
	// Faults by kind.
	Faults map[fault]int64
	// Deletions that took effect, writes by server-side apply, and retained objects by reason, as status told of them.
	Deletions, Applies int64
	Retained           map[v1.RetentionReason]int64
	// Texts are events, conditions, log lines and errors that were searched for the values of Secrets.
	Texts int64
	// Watched are the connections that were opened, and Delivered the events that came by them.
	Watched, Delivered int64
	// Probes are deletions that were tried out first.
	Probes int64
	// Races are deletions of what came into use after the look, and Strays writes of a superseded process that nobody
	// could record.
	Races, Strays int64
	// Stored are Secrets of revisions that were written, Rollbacks revisions that were given up, BroughtBack applies of stored
	// revisions, and Compared Kustomizations that were looked at field by field once they were rolled back.
	Stored, Rollbacks, BroughtBack, Compared int64
}

// NewStats returns empty statistics.
func NewStats() *Stats {
	return &Stats{Faults: map[fault]int64{}, Retained: map[v1.RetentionReason]int64{}}
}

// Add adds those of another run.
func (s *Stats) Add(other *Stats) {
	s.Steps += other.Steps
	s.Requests += other.Requests
	s.Events += other.Events
	s.Deletions += other.Deletions
	s.Applies += other.Applies
	s.Texts += other.Texts
	s.Watched += other.Watched
	s.Delivered += other.Delivered
	s.Probes += other.Probes
	s.Races += other.Races
	s.Strays += other.Strays
	s.Stored += other.Stored
	s.Rollbacks += other.Rollbacks
	s.BroughtBack += other.BroughtBack
	s.Compared += other.Compared
	for kind, n := range other.Faults {
		s.Faults[kind] += n
	}
	for reason, n := range other.Retained {
		s.Retained[reason] += n
	}
}

// Defaults fills in what the seed decides: each run has some kinds of faults and not others, so that rare combinations are
// not drowned by common ones.
func (o Options) Defaults() Options {
	rng := rand.New(rand.NewPCG(o.Seed, 1)) //nolint:gosec // repeatable on purpose
	kinds := []fault{}
	for _, kind := range allFaults {
		if chance(rng, 2) {
			kinds = append(kinds, kind)
		}
	}
	if o.Faults == nil {
		o.Faults = kinds
	}
	if rate := rng.IntN(8); o.Rate < 0 {
		o.Rate = rate
	}
	return o
}

// Result is how a run ended.
type Result struct {
	Options   Options
	Stats     *Stats
	Violation error
	Trace     []string
	// Happened are the numbers of the events and faults that were not skipped.
	Happened []int64
}

// Run simulates one world from its beginning until it has come to rest. The goroutines of a run have a clock of their own, and
// none of them outlives it.
func Run(t *testing.T, o Options) Result {
	t.Helper()
	var r Result
	synctest.Test(t, func(*testing.T) { r = run(o) })
	return r
}

func run(o Options) Result {
	stats := NewStats()
	w := newWorld(o, stats)
	for w.violation == nil && w.step < o.Steps {
		w.advance()
	}
	if w.violation == nil {
		w.settle()
	}
	for len(w.processes) > 0 {
		w.calm = true
		w.killProcess(w.processes[0])
	}
	stats.Steps = w.step
	return Result{Options: o, Stats: stats, Violation: w.violation, Trace: w.trace, Happened: w.happened}
}

// String is what a person reads after a run.
func (s *Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d steps: %d requests of controllers, %d events; %d writes, %d deletions\n", s.Steps, s.Requests, s.Events, s.Applies, s.Deletions)
	fmt.Fprintf(&b, "faults:%s\n", counted(s.Faults))
	fmt.Fprintf(&b, "retained:%s\n", counted(s.Retained))
	fmt.Fprintf(&b, "%d watches opened, %d events by them; %d texts searched for values of Secrets; %d deletions tried out\n", s.Watched, s.Delivered, s.Texts, s.Probes)
	fmt.Fprintf(&b, "%d deletions of what came into use after the look; %d writes of a superseded process that nobody could record\n", s.Races, s.Strays)
	fmt.Fprintf(&b, "%d revisions stored, %d rolled back; %d writes for stored revisions, %d compared field by field", s.Stored, s.Rollbacks, s.BroughtBack, s.Compared)
	return b.String()
}

func counted[K ~string](counts map[K]int64) string {
	text := ""
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(" %s %d,", key, counts[key])
	}
	return strings.TrimSuffix(text, ",")
}
