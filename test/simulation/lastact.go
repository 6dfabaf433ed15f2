package simulation

import (
	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// lastAct: in a world at rest a revision breaks, while processes crash now and then. It is rolled back where that is asked for,
// and what runs then is what ran before.
func (w *world) lastAct() {
	if !w.rollsBack || w.violation != nil {
		return
	}
	w.say("the last act: something breaks")
	broken := map[string]bool{}
	for _, s := range w.sources {
		next := s.newest().tree.clone()
		for i := range next.Components {
			c := &next.Components[i]
			if name := w.followerOf(s, c.Path); c.Kind == anApp && c.Workload != "CronJob" && c.Replicas > 0 && name != "" && !broken[name] {
				broken[name] = true
				c.Broken, c.Suspend, c.Config = true, false, 3*w.counter+3+w.rng.IntN(2) // no image, or it crashes
			}
		}
		w.publish(s, next)
	}
	w.rest(func() {
		if chance(w.rng, 300) {
			w.say("the process dies")
			w.killProcess(w.processes[0])
			w.startProcess()
		}
	})
	for _, name := range w.names {
		ks := w.kustomization(name)
		if broken[name] && len(ks.Spec.DependsOn) == 0 && !w.damaged && w.violation == nil && !isRolledBack(ks) {
			w.fail("rollback", "%s broke and is not rolled back: %+v %+v", name, ks.Status.Conditions, ks.Status.Rollout)
		}
	}
	w.compareAll()
}

// followerOf names the Kustomization that follows a path and asks for rollbacks, with a revision to go back to; empty for none.
func (w *world) followerOf(s *source, path string) string {
	for _, name := range w.names {
		ks := w.kustomization(name)
		if ks == nil || ks.DeletionTimestamp != nil || w.sourceFor(name) != s || ks.Spec.Path != path || !policyOf(ks).rollback {
			continue
		}
		if r := ks.Status.Rollout; r != nil && r.LastHealthy != nil && r.Phase == v1.PhaseHealthy && isListed(r, r.LastHealthy.Digest) {
			return name
		}
	}
	return ""
}

// rest lets time pass that is longer than an interval and than any verification; beside each step something may happen. It
// returns false if that takes too many steps.
func (w *world) rest(beside func()) bool {
	until, last := w.now.Add(restTime), w.step+restSteps
	for w.violation == nil && w.now.Before(until) {
		if w.step > last {
			return false
		}
		beside()
		if !w.calmStep() {
			w.unblock()
			w.passTime()
		}
	}
	return true
}

// compareAll looks at all Kustomizations that are rolled back.
func (w *world) compareAll() {
	for _, name := range w.names {
		if ks := w.kustomization(name); ks != nil && isRolledBack(ks) {
			w.compare(ks)
		}
	}
}
