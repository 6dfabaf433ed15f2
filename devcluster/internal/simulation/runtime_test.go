package simulation

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

type noInit struct{}

func (noInit) IsInitContainer(string, string) bool { return false }

func newTestRuntime() (*Runtime, *clock) {
	c := &clock{at: time.Unix(1_000_000, 0)}
	r := NewRuntime(noInit{})
	r.now = c.now
	return r, c
}

// runContainer starts a container and returns its id and its sandbox's.
func runContainer(t *testing.T, r *Runtime, image string, annotations map[string]string) (string, string) {
	t.Helper()
	ctx := context.Background()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod"}, Annotations: annotations}
	sandbox, err := r.RunPodSandbox(ctx, pod, "")
	if err != nil {
		t.Fatalf("run sandbox: %v", err)
	}
	id, err := r.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: image},
	}, pod)
	if err != nil {
		t.Fatalf("create container: %v", err)
	}
	if err := r.StartContainer(ctx, id); err != nil {
		t.Fatalf("start container: %v", err)
	}
	return id, sandbox
}

func statusOf(t *testing.T, r *Runtime, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	response, err := r.ContainerStatus(context.Background(), id, false)
	if err != nil {
		t.Fatalf("container status: %v", err)
	}
	return response.Status
}

func TestContainerEndsWhenItsTimeHasCome(t *testing.T) {
	r, clock := newTestRuntime()
	id, _ := runContainer(t, r, "app:v1", map[string]string{AnnotationExitAfter: "5s", AnnotationExitCode: "3"})
	clock.at = clock.at.Add(4 * time.Second)
	if got := statusOf(t, r, id).State; got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("state after 4s = %v, want running", got)
	}
	ends := clock.at.Add(time.Second)
	clock.at = clock.at.Add(time.Minute)
	got := statusOf(t, r, id)
	if got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 3 || got.Reason != "Error" {
		t.Errorf("after its time: state %v, code %d, reason %q; want exited, 3, Error", got.State, got.ExitCode, got.Reason)
	}
	if got.FinishedAt != ends.UnixNano() {
		t.Errorf("finished at %v, want the time it ended, not the time it was looked at", time.Unix(0, got.FinishedAt))
	}
}

func TestStopContainer(t *testing.T) {
	for name, test := range map[string]struct {
		stopAfter string
		wantCode  int32
	}{
		"at once":                    {stopAfter: "0s"},
		"slowly":                     {stopAfter: "20ms"},
		"killed after its grace":     {stopAfter: "1h", wantCode: exitCodeKilled},
		"a grace period of 0 is now": {stopAfter: "1ms", wantCode: exitCodeKilled},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newTestRuntime()
			id, _ := runContainer(t, r, "app:v1", map[string]string{AnnotationStopAfter: test.stopAfter})
			grace := int64(1)
			if name == "a grace period of 0 is now" {
				grace = 0
			}
			if err := r.StopContainer(context.Background(), id, grace); err != nil {
				t.Fatalf("stop: %v", err)
			}
			if got := statusOf(t, r, id); got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != test.wantCode {
				t.Errorf("state %v, code %d; want exited, %d", got.State, got.ExitCode, test.wantCode)
			}
		})
	}
}

func TestStopContainerGivesUpWithItsContext(t *testing.T) {
	r, _ := newTestRuntime()
	id, _ := runContainer(t, r, "app:v1", map[string]string{AnnotationStopAfter: "1h"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.StopContainer(ctx, id, 3600); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestRemovedSandboxTakesItsContainersAlong(t *testing.T) {
	r, _ := newTestRuntime()
	ctx := context.Background()
	id, sandbox := runContainer(t, r, "app:v1", nil)
	other, _ := runContainer(t, r, "app:v1", nil)
	if err := r.StopPodSandbox(ctx, sandbox); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if got := statusOf(t, r, id).ExitCode; got != exitCodeKilled {
		t.Errorf("exit code = %d, want %d", got, exitCodeKilled)
	}
	if err := r.RemovePodSandbox(ctx, sandbox); err != nil {
		t.Fatalf("remove: %v", err)
	}
	if _, err := r.ContainerStatus(ctx, id, false); status.Code(err) != codes.NotFound {
		t.Errorf("error = %v, want not found", err)
	}
	if got := statusOf(t, r, other).State; got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the other pod's container is %v, want running", got)
	}
	list, err := r.ListPodSandbox(ctx, nil)
	if err != nil || len(list) != 1 {
		t.Errorf("sandboxes = %d, %v; want 1", len(list), err)
	}
}

func TestListContainersFilters(t *testing.T) {
	r, _ := newTestRuntime()
	running, sandbox := runContainer(t, r, "app:v1", nil)
	runContainer(t, r, "app:crash", nil)
	for name, filter := range map[string]*runtimeapi.ContainerFilter{
		"id":      {Id: running},
		"sandbox": {PodSandboxId: sandbox},
		"state":   {State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}},
	} {
		list, err := r.ListContainers(context.Background(), filter)
		if err != nil || len(list) != 1 || list[0].Id != running {
			t.Errorf("by %s: %v, %v; want %s alone", name, list, err, running)
		}
	}
}

func TestAddressesAreDistinctAndBounded(t *testing.T) {
	pool := addressPool{used: map[string]bool{}}
	seen := map[string]bool{}
	for {
		ip, err := pool.take()
		if err != nil {
			break
		}
		if seen[ip] {
			t.Fatalf("%s was handed out twice", ip)
		}
		seen[ip] = true
	}
	if want := 256 * 254; len(seen) != want {
		t.Errorf("%d addresses, want %d", len(seen), want)
	}
	pool.release("10.244.7.7")
	if ip, err := pool.take(); err != nil || ip != "10.244.7.7" {
		t.Errorf("take = %q, %v; want the one released", ip, err)
	}
}

func TestMissingImage(t *testing.T) {
	images := NewImages()
	ctx := context.Background()
	if _, err := images.PullImage(ctx, &runtimeapi.ImageSpec{Image: "app:missing"}, nil, nil); status.Code(err) != codes.NotFound {
		t.Errorf("pull of a missing image: %v, want not found", err)
	}
	spec := &runtimeapi.ImageSpec{Image: "app:v1"}
	if got, _ := images.ImageStatus(ctx, spec, false); got.Image != nil {
		t.Error("an image is there before it was pulled")
	}
	if _, err := images.PullImage(ctx, spec, nil, nil); err != nil {
		t.Fatalf("pull: %v", err)
	}
	if got, _ := images.ImageStatus(ctx, spec, false); got.Image == nil {
		t.Error("an image is not there after it was pulled")
	}
}
