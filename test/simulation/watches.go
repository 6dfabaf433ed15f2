package simulation

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
	"github.com/holdfast-gitops/holdfast/internal/trigger"
)

// watches are the connections of the real trigger of one process. Its goroutines run between two steps of the world only:
// whatever they ask for waits here until the scheduler serves it, and the scheduler waits until all of them stand still.
type watches struct {
	world   *world
	trigger *trigger.Watcher
	cancel  context.CancelFunc

	mu sync.Mutex
	// asked are connections that are to be opened, and open those that are.
	asked, open []*stream
	// queued has when each Kustomization is to be looked at because of events.
	queued map[client.ObjectKey]time.Time
}

// stream is one connection. The events of one come in order; those of two come in any.
type stream struct {
	*watches
	resource  schema.GroupVersionResource
	namespace string
	owned     bool

	answer  chan error
	events  chan watch.Event
	pending []watch.Event
}

func (w *world) newWatches() *watches {
	ctx, cancel := context.WithCancel(context.Background())
	all := &watches{world: w, cancel: cancel, queued: map[client.ObjectKey]time.Time{}}
	all.trigger = trigger.New(watchClient{watches: all}, trigger.Options{})
	if err := all.trigger.Source().Start(ctx, queue{watches: all}); err != nil {
		panic(err)
	}
	return all
}

// queue takes what the trigger asks for; only AddAfter is used.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	*watches
}

// AddAfter keeps the earliest time.
func (q queue) AddAfter(r reconcile.Request, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.world.now.Add(after)
	if other, ok := q.queued[r.NamespacedName]; !ok || at.Before(other) {
		q.queued[r.NamespacedName] = at
	}
}

// watchClient is a client for metadata that can list, for a version, and watch.
type watchClient struct {
	metadata.ResourceInterface
	*watches
	resource  schema.GroupVersionResource
	namespace string
}

// Resource chooses a resource.
func (c watchClient) Resource(r schema.GroupVersionResource) metadata.Getter {
	return watchClient{watches: c.watches, resource: r}
}

// Namespace chooses a namespace.
func (c watchClient) Namespace(namespace string) metadata.ResourceInterface {
	return watchClient{watches: c.watches, resource: c.resource, namespace: namespace}
}

// List waits until the scheduler opens the connection that the client is about to ask for, or refuses it.
func (c watchClient) List(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	s := &stream{watches: c.watches, resource: c.resource, namespace: c.namespace, owned: o.LabelSelector != "",
		answer: make(chan error), events: make(chan watch.Event)}
	c.mu.Lock()
	c.asked = append(c.asked, s)
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		c.drop(s)
		return nil, ctx.Err()
	case err := <-s.answer:
		return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: s.name()}}, err
	}
}

// Watch returns the connection that List opened.
func (c watchClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.open {
		if s.name() == o.ResourceVersion {
			return s, nil
		}
	}
	return nil, errors.New("nothing was listed")
}

// ResultChan has the events.
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// Stop ends the connection.
func (s *stream) Stop() { s.drop(s) }

// name tells the streams of a process apart; it stands in for a resourceVersion.
func (s *stream) name() string {
	return strings.Join([]string{s.resource.String(), s.namespace, strconv.FormatBool(s.owned)}, "|")
}

// connections are those that are open, and those that are asked for.
func (all *watches) connections() (open, asked []*stream) {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Clone(all.open), slices.Clone(all.asked)
}

// drop forgets a connection.
func (all *watches) drop(s *stream) {
	all.mu.Lock()
	defer all.mu.Unlock()
	same := func(other *stream) bool { return other == s }
	all.open, all.asked = slices.DeleteFunc(all.open, same), slices.DeleteFunc(all.asked, same)
}

// stop ends the process's part.
func (all *watches) stop() {
	all.cancel()
	synctest.Wait()
}

// note adds an event to every connection that it belongs to.
func (all *watches) note(c modelcluster.Change) {
	obj, kind := c.After, watch.Modified
	switch {
	case c.After == nil:
		obj, kind = c.Before, watch.Deleted
	case c.Before == nil:
		kind = watch.Added
	}
	gvk := obj.GroupVersionKind()
	open, _ := all.connections()
	for _, s := range open {
		if s.resource.Group != gvk.Group || s.resource.Resource != pluralOf(gvk.Kind) || s.namespace != obj.GetNamespace() {
			continue
		}
		was, is := c.Before != nil && ownerOf(c.Before) != "", c.After != nil && ownerOf(c.After) != ""
		switch {
		case !s.owned:
			s.pending = append(s.pending, eventOf(kind, obj))
		case was && !is: // it left the selection, with the labels that it had
			s.pending = append(s.pending, eventOf(watch.Deleted, c.Before))
		case is:
			s.pending = append(s.pending, eventOf(kind, obj))
		}
	}
}

func pluralOf(kind string) string { return strings.ToLower(kind) + "s" }

func eventOf(kind watch.EventType, obj *unstructured.Unstructured) watch.Event {
	part := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: obj.GetName(), Namespace: obj.GetNamespace(), Labels: obj.GetLabels()}}
	return watch.Event{Type: kind, Object: part}
}

// deliver serves one thing that waits: a connection that is to be opened, or an event. It returns false if nothing waits.
func (all *watches) deliver() bool {
	w := all.world
	var waiting []*stream
	open, asked := all.connections()
	for _, s := range open {
		if len(s.pending) > 0 {
			waiting = append(waiting, s)
		}
	}
	waiting = append(waiting, asked...)
	if len(waiting) == 0 {
		return false
	}
	slices.SortFunc(waiting, func(a, b *stream) int { return strings.Compare(a.name(), b.name()) })
	s := pick(w.rng, waiting)
	if slices.Contains(asked, s) {
		all.accept(s)
	} else {
		e := s.pending[0]
		s.pending = s.pending[1:]
		s.events <- e
		w.stats.Delivered++
		w.say("an event of %s arrives", s.name())
	}
	all.rest()
	return true
}

// accept opens a connection, or refuses it.
func (all *watches) accept(s *stream) {
	all.drop(s)
	if w := all.world; !w.calm && w.has(lostWatch) && chance(w.rng, 4) {
		w.stats.Faults[lostWatch]++
		w.say("the watch of %s is refused", s.name())
		s.answer <- apierrors.NewTooManyRequests("too many requests", 1)
		return
	}
	all.world.stats.Watched++
	all.mu.Lock()
	all.open = append(all.open, s)
	all.mu.Unlock()
	s.answer <- nil
}

// lose breaks a connection, with all events that were under way.
func (all *watches) lose() bool {
	w := all.world
	open, _ := all.connections()
	if len(open) == 0 {
		return false
	}
	slices.SortFunc(open, func(a, b *stream) int { return strings.Compare(a.name(), b.name()) })
	s := pick(w.rng, open)
	if chance(w.rng, 2) {
		s.events <- watch.Event{Type: watch.Error, Object: &metav1.Status{Reason: metav1.StatusReasonExpired, Message: "too old resource version"}}
	} else {
		close(s.events)
	}
	s.pending = nil
	w.say("the watch of %s breaks", s.name())
	all.rest()
	return true
}

// rest waits until the trigger stands still, and takes over what it asked for.
func (all *watches) rest() {
	synctest.Wait()
	if len(all.queued) == 0 {
		return
	}
	for _, p := range all.world.processes {
		if p.watches != all {
			continue
		}
		for key, at := range all.queued {
			p.workers[key].wake(at)
		}
	}
	clear(all.queued)
}

// restAll is rest for all processes.
func (w *world) restAll() {
	for _, p := range w.processes {
		p.watches.rest()
	}
}

// ticks lets the clock go on, also for the timers of the trigger.
func (w *world) ticks(d time.Duration) {
	w.now = w.now.Add(d)
	if d > 0 {
		time.Sleep(d)
	}
	w.restAll()
}
