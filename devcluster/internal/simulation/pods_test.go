package simulation

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

func TestSimulablePodLosesOnlyWhatReachesTheNetwork(t *testing.T) {
	overHTTP := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{}}
	asleep := &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "sidecar", StartupProbe: &v1.Probe{}}},
		Containers: []v1.Container{
			{Name: "plain"},
			{Name: "main", StartupProbe: &v1.Probe{}, Lifecycle: &v1.Lifecycle{PostStart: overHTTP, PreStop: asleep}},
		},
	}}
	got := simulablePod(pod)
	if got.Spec.InitContainers[0].StartupProbe != nil {
		t.Error("the startup probe of a sidecar is left")
	}
	main := got.Spec.Containers[1]
	if main.Lifecycle.PostStart != nil || main.Lifecycle.PreStop == nil || main.StartupProbe == nil {
		t.Errorf("hooks %+v: want the one over HTTP gone and all else kept", main.Lifecycle)
	}
	if pod.Spec.Containers[1].Lifecycle.PostStart == nil {
		t.Error("the pod given was changed")
	}
}

func TestEventsAboutTheNodeAreKeptBack(t *testing.T) {
	fake := record.NewFakeRecorder(8)
	recorder := PodEvents{EventRecorderLogger: fake}
	for _, object := range []runtime.Object{&v1.ObjectReference{Kind: "Node"}, &v1.Pod{}, &v1.ObjectReference{Kind: "Pod"}} {
		recorder.Event(object, v1.EventTypeWarning, "Reason", "message")
		recorder.Eventf(object, v1.EventTypeWarning, "Reason", "message")
		recorder.AnnotatedEventf(object, nil, v1.EventTypeWarning, "Reason", "message")
	}
	if got := len(fake.Events); got != 6 {
		t.Errorf("%d events, want the 6 about pods", got)
	}
}
