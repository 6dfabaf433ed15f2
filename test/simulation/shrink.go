package simulation

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// maxShrink bounds the time that is spent on looking for a simpler history.
const maxShrink = 40 * time.Second

// Shrink looks for a simpler run of the same seed that fails as well: without whole kinds of faults, with fewer steps, and
// then without one part after the other of the events and faults that are left. It returns the history of the simplest one.
func Shrink(t *testing.T, o Options) Result {
	t.Helper()
	s := shrinker{t: t, best: o, until: time.Now().Add(maxShrink)}
	for _, kind := range o.Faults {
		fewer := s.best
		fewer.Faults = slices.DeleteFunc(slices.Clone(fewer.Faults), func(f fault) bool { return f == kind })
		s.try(fewer)
	}
	for steps := o.Steps / 2; steps > 0; steps /= 2 {
		fewer := s.best
		fewer.Steps -= steps
		s.try(fewer)
	}
	s.skipParts()
	final := s.best
	final.Trace = true
	return Run(t, final)
}

type shrinker struct {
	t     *testing.T
	best  Options
	until time.Time
}

// try keeps simpler options if the run still fails.
func (s *shrinker) try(o Options) bool {
	if time.Now().After(s.until) || Run(s.t, o).Violation == nil {
		return false
	}
	s.best = o
	return true
}

// skipParts leaves out ever smaller parts of what happens.
func (s *shrinker) skipParts() {
	happened := Run(s.t, s.best).Happened
	for size := int64(len(happened)+1) / 2; size > 0 && time.Now().Before(s.until); size /= 2 {
		for from := int64(0); from < int64(len(happened)); from += size {
			fewer, news := s.best, false
			fewer.Skip = maps.Clone(fewer.Skip)
			if fewer.Skip == nil {
				fewer.Skip = map[int64]bool{}
			}
			for _, n := range happened[from:min(from+size, int64(len(happened)))] {
				news = news || !fewer.Skip[n]
				fewer.Skip[n] = true
			}
			if news {
				s.try(fewer)
			}
		}
	}
}
