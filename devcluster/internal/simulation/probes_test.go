package simulation

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// newTestProbes returns probes, and where the pauses go after which they have
// the kubelet look again.
func newTestProbes() (*Probes, *clock, *[]time.Duration) {
	c := &clock{at: time.Unix(1_000_000, 0)}
	var pauses []time.Duration
	p := NewProbes()
	p.now = c.now
	p.after = func(d time.Duration, _ func()) *time.Timer {
		pauses = append(pauses, d)
		return time.NewTimer(time.Hour)
	}
	return p, c, &pauses
}

func runningSince(at time.Time) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}}
}

func TestReadinessFollowsStateAndAnnotations(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		state       func(now time.Time) v1.ContainerStatus
		wantReady   bool
		wantStarted bool
		wantPause   time.Duration
	}{
		"running": {state: runningSince, wantReady: true, wantStarted: true},
		"could not start": {state: func(time.Time) v1.ContainerStatus {
			return v1.ContainerStatus{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}}}
		}},
		"unready": {annotations: map[string]string{AnnotationUnready: "true"}, state: runningSince, wantStarted: true},
		"later":   {annotations: map[string]string{AnnotationReadyAfter: "9s"}, state: runningSince, wantStarted: true, wantPause: 9 * time.Second},
		"crashed": {state: func(time.Time) v1.ContainerStatus {
			return v1.ContainerStatus{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}}
		}, wantPause: backOffShown},
	} {
		t.Run(name, func(t *testing.T) {
			p, clock, pauses := newTestProbes()
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			status := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{test.state(clock.at)}}
			p.UpdatePodStatus(context.Background(), pod, status)
			got := status.ContainerStatuses[0]
			if got.Ready != test.wantReady || *got.Started != test.wantStarted {
				t.Errorf("ready %t, started %t; want %t, %t", got.Ready, *got.Started, test.wantReady, test.wantStarted)
			}
			if test.wantPause == 0 && len(*pauses) > 0 || test.wantPause > 0 && (len(*pauses) != 1 || (*pauses)[0] != test.wantPause) {
				t.Errorf("looks again after %v, want %v", *pauses, test.wantPause)
			}
		})
	}
}

func TestFinishedPodsAreLeftAlone(t *testing.T) {
	ended := &v1.ContainerStateTerminated{ExitCode: 1}
	deleted := metav1.Now()
	for name, pod := range map[string]*v1.Pod{
		"never restarted": {Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}},
		"being deleted":   {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}},
	} {
		if got := untilBackOff(pod, ended); got != 0 {
			t.Errorf("%s: looks again after %v, want never", name, got)
		}
	}
	onFailure := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure}}
	if got := untilBackOff(onFailure, &v1.ContainerStateTerminated{}); got != 0 {
		t.Errorf("ended well: looks again after %v, want never", got)
	}
}

func TestInitContainersAreKnown(t *testing.T) {
	p, clock, _ := newTestProbes()
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "1"},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}},
			Containers:     []v1.Container{{Name: "main"}},
		},
	}
	p.AddPod(context.Background(), pod)
	for name, want := range map[string]bool{"init": true, "sidecar": false, "main": false} {
		if got := p.IsInitContainer("1", name); got != want {
			t.Errorf("%s is an init container: %t, want %t", name, got, want)
		}
	}
	sidecar := runningSince(clock.at)
	sidecar.Name = "sidecar"
	status := &v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{
		{Name: "init", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}, sidecar,
	}}
	p.UpdatePodStatus(context.Background(), pod, status)
	for _, s := range status.InitContainerStatuses {
		if !s.Ready {
			t.Errorf("%s is not ready", s.Name)
		}
	}
	p.CleanupPods(map[types.UID]sets.Empty{})
	if p.IsInitContainer("1", "init") {
		t.Error("a pod is known after it was cleaned up")
	}
}
