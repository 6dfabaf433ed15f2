package kustomization

import (
	"fmt"
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

func pausedUntil(end time.Time) *v1.Kustomization {
	ks := newKustomization()
	ks.Annotations = map[string]string{v1.AnnotationPause: fmt.Sprintf(`{"reason":"freeze","until":%q}`, end.Format(time.RFC3339))}
	return ks
}

// A pause counts like a suspension up to its end, at which there is another pass: in passes, and when the Kustomization is deleted. What a
// person brings back goes on.
func TestPauseCountsLikeASuspension(t *testing.T) {
	suspended, both, pinned, asked := newKustomization(), pausedUntil(now.Add(time.Hour)), pausedUntil(now.Add(time.Hour)), pausedUntil(now.Add(time.Hour))
	suspended.Spec.Suspend, both.Spec.Suspend = true, true
	pinned.Status.Rollout = &v1.RolloutStatus{Pin: &v1.Pin{}}
	asked.Annotations[v1.AnnotationRollback] = "{}"
	for name, tt := range map[string]struct {
		ks            *v1.Kustomization
		rests, leaves bool
		after         time.Duration
	}{
		"neither":   {newKustomization(), false, false, 0},
		"suspended": {suspended, true, true, 0},
		"paused":    {pausedUntil(now.Add(time.Hour)), true, true, time.Hour},
		"ended":     {pausedUntil(now), false, false, 0},
		"both":      {both, true, true, 0},
		"pinned":    {pinned, false, true, time.Hour},
		"asked":     {asked, false, true, time.Hour},
	} {
		p := passOn(tt.ks)
		if p.rests() != tt.rests || p.leavesAll() != tt.leaves || p.pauseEnds() != tt.after {
			t.Errorf("%s: rests %t, leaves all %t, again after %s; want %+v", name, p.rests(), p.leavesAll(), p.pauseEnds(), tt)
		}
	}
}
