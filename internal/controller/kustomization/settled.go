package kustomization

import (
	"time"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// The longest time between two applies with a dry-run of every object: what an object does not show, such as another webhook or
// other rights, is seen then at the latest.
const (
	fullIntervals = 10
	maxFull       = time.Hour
)

// settled is what needs no dry-run in this pass. It is dropped after a restart, with a change of the spec, the cluster or the account,
// after a failure, and in time. A stored revision comes back with dry-runs only, since some of it may be left as it is.
func (p *pass) settled() execute.Settled {
	if p.course.Back {
		p.mem.settled = nil
		return nil
	}
	age := p.now.Sub(p.mem.settledAt)
	if p.mem.settled == nil || p.mem.settledGeneration != p.ks.Generation || age < 0 || age >= p.fullAfter() {
		p.mem.settled, p.mem.settledGeneration, p.mem.settledAt = execute.Settled{}, p.ks.Generation, p.now
	}
	return p.mem.settled
}

func (p *pass) fullAfter() time.Duration {
	return min(fullIntervals*p.ks.Spec.Interval.Duration, maxFull)
}
