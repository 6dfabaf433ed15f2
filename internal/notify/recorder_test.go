package notify

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// slow is a receiver that takes nothing before it may.
type slow struct {
	record.FakeRecorder
	may  chan struct{}
	took chan string
}

func (s *slow) AnnotatedEventf(object runtime.Object, _ map[string]string, _, _, format string, args ...any) {
	<-s.may
	s.took <- object.(*corev1.ConfigMap).Name + " " + fmt.Sprintf(format, args...) //nolint:forcetypeassert // the test's own
}

func TestSlowReceiverHoldsUpNobody(t *testing.T) {
	const told = queueLength + 10
	kubernetes := record.NewFakeRecorder(told)
	receiver := &slow{may: make(chan struct{}), took: make(chan string, told)}
	r := newRecorder(kubernetes, receiver, logr.Discard())
	object := &corev1.ConfigMap{}
	for i := range told {
		object.Name = fmt.Sprint("c", i)
		r.Eventf(object, "Normal", "Reason", "event %d", i)
	}
	if n := len(kubernetes.Events); n != told {
		t.Errorf("Kubernetes was told %d events of %d", n, told)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	close(receiver.may)
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(receiver.took); n != queueLength {
		t.Fatalf("%d events were posted, want those that were queued: %d", n, queueLength)
	}
	for i := range queueLength {
		if want, got := fmt.Sprintf("c%d event %d", i, i), <-receiver.took; got != want {
			t.Fatalf("event %d is %q, want %q", i, got, want)
		}
	}
}

func TestEndDoesNotWaitForASilentReceiver(t *testing.T) {
	receiver := &slow{may: make(chan struct{}), took: make(chan string, 1)}
	r := newRecorder(record.NewFakeRecorder(1), receiver, logr.Discard())
	r.Event(&corev1.ConfigMap{}, "Normal", "Reason", "never posted")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	close(receiver.may)
	<-receiver.took
}
