package kustomization

import (
	"testing"
	"time"
)

// An apply is due when its time has come, and when the clock went back: its time would be further away than the interval.
func TestApplyIsDue(t *testing.T) {
	for name, test := range map[string]struct {
		applied, next time.Duration
		want          bool
	}{
		"just applied":        {applied: 0, next: time.Hour},
		"the time has come":   {applied: -time.Hour, next: 0, want: true},
		"the clock went back": {applied: time.Minute, next: time.Hour + time.Minute, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := passOn(newKustomization())
			p.mem.appliedAt, p.mem.nextApply = now.Add(test.applied), now.Add(test.next)
			if got := p.applyIsDue(); got != test.want {
				t.Errorf("due: %v", got)
			}
		})
	}
}
