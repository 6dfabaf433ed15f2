// Package notify tells events to Kubernetes and to a receiver, such as Flux's notification-controller, without holding up whoever has
// something to tell: a receiver that does not answer costs events, and no reconciliation.
package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/events"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// queueLength is how many events may wait for the receiver. More are dropped, with a line in the log.
	queueLength = 1000
	// farewell is how long events that wait may take when the process ends.
	farewell = 3 * time.Second
)

// Recorder records events in Kubernetes at once, and posts them to a receiver in the background, in order.
type Recorder struct {
	kubernetes, receiver record.EventRecorder
	queue                chan func()
	log                  logr.Logger
}

// New returns a recorder for a component. Without an address there is only Kubernetes to tell.
func New(mgr ctrl.Manager, address, component string) (record.EventRecorder, error) {
	kubernetes, err := events.NewRecorder(mgr, ctrl.Log, "", component)
	if err != nil {
		return nil, fmt.Errorf("record events: %w", err)
	}
	if address == "" {
		return kubernetes, nil
	}
	receiver, err := events.NewRecorder(mgr, ctrl.Log, address, component)
	if err != nil {
		return nil, fmt.Errorf("record events: %w", err)
	}
	receiver.EventRecorder = &record.FakeRecorder{} // drops what it gets: the other one tells Kubernetes
	r := newRecorder(kubernetes, receiver, ctrl.Log)
	return r, mgr.Add(r)
}

func newRecorder(kubernetes, receiver record.EventRecorder, log logr.Logger) *Recorder {
	return &Recorder{kubernetes: kubernetes, receiver: receiver, queue: make(chan func(), queueLength), log: log}
}

// Start posts events until the context ends, and then for a moment those that wait.
func (r *Recorder) Start(ctx context.Context) error {
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		for post := r.next(ctx.Done()); post != nil; post = r.next(ctx.Done()) {
			post()
		}
	}()
	<-ctx.Done()
	select {
	case <-posted:
	case <-time.After(farewell):
		// The receiver does not answer. The process must end all the same.
	}
	return nil
}

// next waits for an event to post; once the end has come it returns only what is there, and then nil.
func (r *Recorder) next(end <-chan struct{}) func() {
	select {
	case post := <-r.queue:
		return post
	default:
	}
	select {
	case post := <-r.queue:
		return post
	case <-end:
		return nil
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: events are posted for as long as there are any.
func (r *Recorder) NeedLeaderElection() bool { return false }

// Event implements record.EventRecorder.
func (r *Recorder) Event(object runtime.Object, kind, reason, message string) {
	r.AnnotatedEventf(object, nil, kind, reason, "%s", message)
}

// Eventf implements record.EventRecorder.
func (r *Recorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.AnnotatedEventf(object, nil, kind, reason, format, args...)
}

// AnnotatedEventf implements record.EventRecorder. It does not wait for the receiver.
func (r *Recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	r.kubernetes.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	// The caller goes on to change its object.
	object, message := object.DeepCopyObject(), fmt.Sprintf(format, args...)
	post := func() { r.receiver.AnnotatedEventf(object, annotations, kind, reason, "%s", message) }
	select {
	case r.queue <- post:
	default:
		r.log.Info("event not posted: the receiver is too slow, and too many events wait for it; look at what --events-addr names",
			"waiting", queueLength, "reason", reason, "event", message)
	}
}
