package simulation

import (
	"fmt"
	"slices"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// advance takes one step: one request of a controller, one write of the cluster's own controllers, one event of the
// environment, or a move of the clock.
func (w *world) advance() {
	w.step++
	var running, due []*worker
	w.each(func(k *worker) {
		switch {
		case k.running:
			running = append(running, k)
		case !k.due.IsZero() && !k.due.After(w.now):
			due = append(due, k)
		}
	})
	n := w.rng.IntN(100)
	if n%4 == 0 && pick(w.rng, w.processes).watches.deliver() {
		return
	}
	switch n = w.rng.IntN(100); {
	case n < 3:
		w.apart(w.happen)
	case n < 4:
		w.apart(w.disturb)
	case n < 24:
		if done := w.cluster.Work(w.rng.Uint64()); done != "" {
			w.say("%s", done)
			return
		}
		w.tick(running, due)
	case n < 40 && len(due) > 0:
		pick(w.rng, due).begin()
	default:
		w.tick(running, due)
	}
	if w.step%256 == 0 {
		w.checkOrphans()
	}
}

// tick lets a controller go on, or time pass.
func (w *world) tick(running, due []*worker) {
	switch {
	case len(running) > 0:
		w.serve(pick(w.rng, running))
	case len(due) > 0:
		pick(w.rng, due).begin()
	default:
		d := time.Duration(1+w.rng.IntN(20)) * time.Second
		w.ticks(d)
		w.say("%s pass", d)
	}
}

func (k *worker) begin() {
	k.world.say("%s begins a pass", k.name)
	k.start()
}

// serve decides about the request that a worker waits with.
func (w *world) serve(k *worker) {
	f := w.fateOf(k)
	w.say("%s: %s %s", k.name, k.request, f.fault)
	w.stats.Requests++
	k.advance(f)
	if !k.running && !k.dead {
		w.say("%s ends its pass: again after %s, %v", k.name, k.result.RequeueAfter, k.err)
	}
	if f.crash {
		w.killProcess(k.process)
		w.startProcess()
		w.say("the process died after that request; another one starts")
	}
}

// has tells whether the run has a kind of fault.
func (w *world) has(f fault) bool {
	for _, other := range w.options.Faults {
		if other == f {
			return true
		}
	}
	return false
}

// disturb is a fault of the world.
func (w *world) disturb() {
	kind := pick(w.rng, []fault{crash, handover, clockJump, sourceRewind, webhookDenial, lostWatch})
	if !w.has(kind) {
		return
	}
	switch kind {
	case crash:
		w.killProcess(pick(w.rng, w.processes))
		if len(w.processes) == 0 {
			w.startProcess()
		}
	case handover:
		if len(w.processes) > 1 {
			w.killProcess(w.processes[0])
			break
		}
		w.processes[0].superseded = true
		w.startProcess()
	case lostWatch:
		if !pick(w.rng, w.processes).watches.lose() {
			return
		}
	case clockJump:
		by := time.Duration(w.rng.IntN(3600)-600) * time.Second
		w.now = w.now.Add(by)
		if by < 0 {
			w.truth.jumpedBack = w.step
		}
	case sourceRewind:
		s := pick(w.rng, w.sources)
		w.offer(s, pick(w.rng, s.published))
	case webhookDenial:
		kind := pick(w.rng, []string{"ConfigMap", "Secret", "Deployment", "Namespace", "Widget"})
		w.denied[kind] = !w.denied[kind]
	}
	w.stats.Faults[kind]++
	w.say("disturbed: %s", kind)
}

// The events that only a world with rollbacks has: something breaks or is mended, and nothing happens.
const (
	aBreak  = 24
	noEvent = 25
)

// nextEvent draws what happens. Where people ask for rollbacks they mostly wait for a verdict about one revision before they
// publish another one, and let things alone meanwhile.
func (w *world) nextEvent() int {
	n := w.rng.IntN(aBreak)
	switch {
	case !w.rollsBack:
		return n
	case w.isRollingOut() && !chance(w.rng, 4):
		return noEvent
	case n < 12 && chance(w.rng, 2):
		return aBreak
	}
	return n
}

// isRollingOut tells whether a verdict is open.
func (w *world) isRollingOut() bool {
	return slices.ContainsFunc(w.names, func(name string) bool {
		ks := w.kustomization(name)
		return ks != nil && ks.Status.Rollout != nil && (ks.Status.Rollout.Phase == v1.PhaseApplying || ks.Status.Rollout.Phase == v1.PhaseVerifying)
	})
}

// happen is something that people or nodes do.
func (w *world) happen() {
	what := ""
	switch w.nextEvent() {
	case noEvent:
		return
	case 0, 1, 2, 3, 4:
		s := pick(w.rng, w.sources)
		old := s.newest().tree
		if chance(w.rng, 6) {
			old = pick(w.rng, s.published).tree // a revert
		}
		w.publish(s, old.change(w.rng, w.pathsOf(s), w.counter))
		what = fmt.Sprintf("%s has %s: %+v", s.name, s.newest().revision, s.newest().tree)
	case 5, 6, 7:
		what = w.drain()
	case 8, 9:
		what = w.touchKustomization()
	case 10:
		what = w.removeKustomization()
	case 11, 12:
		what = w.autoscale()
	case 13:
		what = w.fire()
	case 14:
		what = w.confirm()
	case 15:
		what = w.fill()
	case 16, 17:
		what = w.command()
	case 18:
		what = w.damage()
	case aBreak:
		what = w.breakOrMend()
	default:
		what = w.touchObject()
	}
	if what != "" {
		w.stats.Events++
		w.say("%s", what)
	}
}
