// Package trigger turns changes of managed objects, and of those that use them, into "look again" for a Kustomization.
//
// A Kustomization says which objects it waits for (Set), and is queued when one of them changes. Watches start with the
// first one that is interested and stop with the last, so nothing is watched, and nothing is spent, while nobody waits. Only
// metadata is asked for, and none of it is kept.
//
// An event is a reason to read an object again, never proof of anything: what is decided is decided on fresh reads. So
// a watch that breaks, or an event that is missed, costs time and nothing else; the periodic look makes up for it.
package trigger

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Target is a set of objects: one resource, in one namespace or in all.
type Target struct {
	Resource  schema.GroupVersionResource
	Namespace string
	// Owned limits the target to objects with owner labels, and their events to the Kustomization that the labels name. All
	// Kustomizations share one such watch.
	Owned bool
}

func (t Target) selector() string {
	if t.Owned {
		return v1.OwnerNameLabel
	}
	return ""
}

// Queue is where Kustomizations are queued.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Options are the settings of a Watcher.
type Options struct {
	// Settle is the time between an event and the look that it causes, so that a burst of events causes one look.
	Settle time.Duration
	// Backoff is the time after which a watch that broke is tried again.
	Backoff time.Duration
}

// Watcher holds the watches.
type Watcher struct {
	client  metadata.Interface
	options Options

	mu      sync.Mutex
	queue   Queue
	ctx     context.Context //nolint:containedctx // the life of the process, which watches end with
	watches map[Target]*running
	wanted  map[types.NamespacedName][]Target
}

// running is a watch and those that are interested in it.
type running struct {
	cancel context.CancelFunc
	keys   map[types.NamespacedName]time.Duration
}

// New returns a watcher that does nothing before its source was started.
func New(client metadata.Interface, o Options) *Watcher {
	if o.Settle <= 0 {
		o.Settle = 200 * time.Millisecond
	}
	if o.Backoff <= 0 {
		o.Backoff = 5 * time.Second
	}
	return &Watcher{client: client, options: o, watches: map[Target]*running{}, wanted: map[types.NamespacedName][]Target{}}
}

// Source connects the watcher to the queue of a controller.
func (w *Watcher) Source() source.Source {
	return source.Func(func(ctx context.Context, queue Queue) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ctx, w.queue = ctx, queue
		return nil
	})
}

// Set says what a Kustomization waits for, in place of what it said before; nothing, when it waits for nothing. The looks
// that events cause are at least the given time apart, for Kustomizations whose look is expensive.
func (w *Watcher) Set(key types.NamespacedName, apart time.Duration, targets ...Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil || w.ctx.Err() != nil {
		return
	}
	keep := make(map[Target]bool, len(targets))
	for _, t := range targets {
		keep[t] = true
		w.join(t, key, max(apart, w.options.Settle))
	}
	for _, t := range w.wanted[key] {
		if !keep[t] {
			w.leave(t, key)
		}
	}
	if len(targets) == 0 {
		delete(w.wanted, key)
		return
	}
	w.wanted[key] = targets
}

// Watches is the number of watches that are open.
func (w *Watcher) Watches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watches)
}

// join adds a key to a watch, which is started if need be. The lock is held.
func (w *Watcher) join(t Target, key types.NamespacedName, apart time.Duration) {
	r := w.watches[t]
	if r == nil {
		ctx, cancel := context.WithCancel(w.ctx)
		r = &running{cancel: cancel, keys: map[types.NamespacedName]time.Duration{}}
		w.watches[t] = r
		go w.run(ctx, t, r)
	} else if _, joined := r.keys[key]; !joined {
		// The watch tells of changes from now on. What changed since the last look is seen by one more.
		w.queue.AddAfter(reconcile.Request{NamespacedName: key}, apart)
	}
	r.keys[key] = apart
}

// leave takes a key out of a watch, which ends with the last one. The lock is held.
func (w *Watcher) leave(t Target, key types.NamespacedName) {
	r := w.watches[t]
	if r == nil {
		return
	}
	delete(r.keys, key)
	if len(r.keys) == 0 {
		r.cancel()
		delete(w.watches, t)
	}
}

// run watches until the context ends.
func (w *Watcher) run(ctx context.Context, t Target, r *running) {
	for ctx.Err() == nil {
		err := w.follow(ctx, t, r)
		if ctx.Err() != nil {
			return
		}
		wait := time.Duration(0)
		if err != nil {
			wait = w.options.Backoff
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// errWatch says that the API server ended a watch with an error, such as an expired version.
var errWatch = errors.New("the watch ended with an error")

// follow opens one watch from the present on and fires at every event, until it breaks. Whatever happened before the watch
// was open, or while it was broken, may have been missed, so its opening causes a look, too, and so does a failure to open it.
func (w *Watcher) follow(ctx context.Context, t Target, r *running) error {
	resource := w.client.Resource(t.Resource).Namespace(t.Namespace)
	defer w.fire(r)
	list, err := resource.List(ctx, metav1.ListOptions{LabelSelector: t.selector(), Limit: 1})
	if err != nil {
		return err
	}
	events, err := resource.Watch(ctx, metav1.ListOptions{LabelSelector: t.selector(), ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer events.Stop()
	w.fire(r)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-events.ResultChan():
			switch {
			case !open:
				return nil
			case e.Type == watch.Error:
				return errWatch
			}
			if t.Owned {
				w.fireOwner(r, e.Object)
			} else {
				w.fire(r)
			}
		}
	}
}

// fireOwner queues the Kustomization that the labels of an object name, if it is interested.
func (w *Watcher) fireOwner(r *running, obj runtime.Object) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return // an event without an object, such as a bookmark, tells of no change
	}
	labels := accessor.GetLabels()
	key := types.NamespacedName{Namespace: labels[v1.OwnerNamespaceLabel], Name: labels[v1.OwnerNameLabel]}
	w.mu.Lock()
	defer w.mu.Unlock()
	if apart, ok := r.keys[key]; ok {
		w.queue.AddAfter(reconcile.Request{NamespacedName: key}, apart)
	}
}

// fire queues everybody who is interested. The queue merges what is queued twice.
func (w *Watcher) fire(r *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, apart := range r.keys {
		w.queue.AddAfter(reconcile.Request{NamespacedName: key}, apart)
	}
}
