package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// phase is a part of a run. Its seconds are those from the end of begin to the time that done is true of count Kustomizations.
type phase struct {
	name string
	// prepare is not measured; nil for nothing.
	prepare func(context.Context) error
	begin   func(context.Context) error
	count   int
	done    func(*v1.Kustomization) bool
	// settled is true when nothing is left to do, which may come later than done; nil for at once.
	settled func(*v1.Kustomization) bool
	// last is how long the phase lasts at least.
	last time.Duration
}

// extra are Kustomizations that come late: one alone, and one beside stuck neighbours.
var extra = []string{"late", "beside"}

func (w *world) phases() []phase {
	list := []phase{
		{name: "install", prepare: func(context.Context) error { return w.push() }, begin: w.install, count: w.fleet, done: w.isCurrent},
		{name: "update", begin: w.update, count: w.fleet, done: w.isCurrent, settled: w.isPruned},
		{name: "resync", begin: w.resync, count: w.fleet, done: func(ks *v1.Kustomization) bool {
			return isReady(ks) && ks.Status.LastHandledReconcileAt == "resync"
		}},
	}
	if w.interval > 0 {
		list = append(list, phase{name: "idle", prepare: w.shorten, begin: nothing, count: w.fleet, done: isReady, last: w.interval})
	}
	if w.stuck > 0 {
		list = append(list, w.late(extra[0], 0), w.late(extra[1], w.stuck))
	}
	return list
}

func nothing(context.Context) error { return nil }

func (w *world) install(ctx context.Context) error {
	if err := w.create(ctx, w.source()); err != nil {
		return err
	}
	return w.each(func(ks *v1.Kustomization) error { return w.create(ctx, ks) })
}

func (w *world) update(ctx context.Context) error {
	if err := w.push(); err != nil {
		return err
	}
	return w.request(ctx, w.source(), w.revision)
}

func (w *world) resync(ctx context.Context) error {
	return w.each(func(ks *v1.Kustomization) error { return w.request(ctx, ks, "resync") })
}

// shorten sets the interval of the idle phase and waits until all have taken it up.
func (w *world) shorten(ctx context.Context) error {
	err := w.each(func(ks *v1.Kustomization) error {
		patch := fmt.Sprintf(`{"spec":{"interval":%q}}`, w.interval)
		return w.kube.Patch(ctx, ks, client.RawPatch(client.Merge.Type(), []byte(patch)))
	})
	if err != nil {
		return fmt.Errorf("shorten the interval: %w", err)
	}
	return w.await(ctx, w.fleet, w.isCurrent)
}

// late is the phase of a new Kustomization beside a number of stuck neighbours.
func (w *world) late(name string, stuck int) phase {
	n := len(extra)
	for i := range extra {
		if extra[i] == name {
			n = i
		}
	}
	return phase{
		name: fmt.Sprintf("new, %d stuck", stuck),
		prepare: func(ctx context.Context) error {
			for i := range stuck {
				ks := w.kustomization(fmt.Sprintf("stuck-%d", i), stuckPath)
				ks.Spec.NamePrefix, ks.Spec.Wait, ks.Spec.Timeout = ks.Name+"-", true, &metav1.Duration{Duration: time.Minute}
				if err := w.create(ctx, ks); err != nil {
					return err
				}
			}
			return nil
		},
		begin: func(ctx context.Context) error { return w.create(ctx, w.kustomization(name, appPath(w.fleet+1+n))) },
		count: 1,
		done:  func(ks *v1.Kustomization) bool { return ks.Name == name && isReady(ks) },
	}
}

// isCurrent tells whether a Kustomization is ready at the last commit and with its last spec.
func (w *world) isCurrent(ks *v1.Kustomization) bool {
	return isReady(ks) && strings.HasSuffix(ks.Status.LastAppliedRevision, w.revision)
}

// isPruned tells whether nothing but the objects of the last commit is left.
func (w *world) isPruned(ks *v1.Kustomization) bool {
	return w.isCurrent(ks) && ks.Status.Inventory != nil && len(ks.Status.Inventory.Entries) == w.objects
}

func isReady(ks *v1.Kustomization) bool {
	return ks.Status.ObservedGeneration == ks.Generation && apimeta.IsStatusConditionTrue(ks.Status.Conditions, meta.ReadyCondition)
}

// measure does a phase.
func (w *world) measure(ctx context.Context, p phase) (figure, error) {
	if p.prepare != nil {
		if err := p.prepare(ctx); err != nil {
			return figure{}, err
		}
		if err := pause(ctx, w.settle); err != nil {
			return figure{}, err
		}
	}
	before, err := w.controller.used(ctx)
	if err != nil && w.version > 1 {
		return figure{}, err
	}
	profiled := w.profile(ctx, p)
	began := time.Now()
	if err := p.begin(ctx); err != nil {
		return figure{}, err
	}
	if err := w.await(ctx, p.count, p.done); err != nil {
		return figure{}, err
	}
	took := time.Since(began)
	if p.settled != nil {
		if err := w.await(ctx, p.count, p.settled); err != nil {
			return figure{}, err
		}
	}
	settled := time.Since(began)
	if err := errors.Join(pause(ctx, max(w.settle, p.last-settled)), <-profiled); err != nil {
		return figure{}, err
	}
	after, err := w.controller.used(ctx)
	f := figure{Phase: p.name, Seconds: took.Seconds(), Settled: settled.Seconds(), CPU: after.cpu - before.cpu, Peak: after.peak, Own: after.own, Requests: map[string]int{}}
	for method, n := range after.requests {
		if n -= before.requests[method]; n > 0 {
			f.Requests[method] = n
		}
	}
	return f, err
}

// profileSeconds is how long a phase is profiled, from its start.
const profileSeconds = 10

// profile takes a CPU profile of a phase, if that was asked for.
func (w *world) profile(ctx context.Context, p phase) <-chan error {
	done := make(chan error, 1)
	if w.profiles == "" {
		done <- nil
		return done
	}
	go func() {
		content, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", w.controller.metrics[0], profileSeconds))
		if err == nil {
			err = os.WriteFile(filepath.Join(w.profiles, p.name+".pprof"), []byte(content), 0o644)
		}
		done <- err
	}()
	return done
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// await waits until something is true of a number of Kustomizations at the same time, by a watch.
func (w *world) await(ctx context.Context, count int, done func(*v1.Kustomization) bool) error {
	finished := map[string]bool{}
	for len(finished) < count {
		events, err := w.kube.Watch(ctx, &v1.KustomizationList{}, client.InNamespace(namespace))
		if err != nil {
			return fmt.Errorf("watch the Kustomizations: %w", err)
		}
		if err := w.follow(ctx, events, finished, count, done); err != nil {
			return err
		}
	}
	return nil
}

// follow takes in the events of a watch until enough is finished or the watch ends.
func (w *world) follow(ctx context.Context, events watch.Interface, finished map[string]bool, count int, done func(*v1.Kustomization) bool) error {
	defer events.Stop()
	for len(finished) < count {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.controller.exited:
			return w.controller.dead()
		case e, open := <-events.ResultChan():
			if !open {
				return nil
			}
			if ks, ok := e.Object.(*v1.Kustomization); ok && done(ks) {
				finished[ks.Name] = true
			} else if ok {
				delete(finished, ks.Name)
			}
		}
	}
	return nil
}
