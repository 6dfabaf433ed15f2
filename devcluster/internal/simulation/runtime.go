package simulation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels by which the kubelet marks whose a container is.
const (
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// Pods answers what the runtime API does not carry about a pod.
type Pods interface {
	// IsInitContainer says whether the named container has to end before the
	// pod's others start.
	IsInitContainer(podUID, container string) bool
}

// Runtime is the simulated container runtime. It is safe for concurrent use.
type Runtime struct {
	pods Pods
	now  func() time.Time

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	addresses  addressPool
}

var _ internalapi.RuntimeService = (*Runtime)(nil)

// NewRuntime returns an empty runtime.
func NewRuntime(pods Pods) *Runtime {
	return &Runtime{
		pods:       pods,
		now:        time.Now,
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		addresses:  addressPool{used: map[string]bool{}},
	}
}

// CreateContainer creates a container whose behaviour is fixed from now on.
func (r *Runtime) CreateContainer(_ context.Context, sandboxID string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	as := roleMain
	if r.pods.IsInitContainer(config.Labels[labelPodUID], config.Labels[labelContainerName]) {
		as = roleInit
	}
	// The kubelet resolves an image to its id before this call; the name the
	// pod gave is kept beside it.
	image := config.Image.GetUserSpecifiedImage()
	if image == "" {
		image = config.Image.GetImage()
	}
	does, err := containerBehavior(image, as, pod.GetAnnotations())
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, found := r.sandboxes[sandboxID]; !found {
		return "", notFound("pod sandbox", sandboxID)
	}
	c := &container{
		id:        newID(),
		sandboxID: sandboxID,
		config:    config,
		resources: config.GetLinux().GetResources(),
		behavior:  does,
		created:   r.now(),
	}
	r.containers[c.id] = c
	return c.id, nil
}

// StartContainer starts a container that was created.
func (r *Runtime) StartContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, found := r.containers[id]
	if !found {
		return notFound("container", id)
	}
	c.started = r.now()
	return nil
}

// StopContainer returns when the container has stopped. Like a real process it
// may take its time, at most the grace period, and may end by itself meanwhile.
func (r *Runtime) StopContainer(ctx context.Context, id string, graceSeconds int64) error {
	r.mu.Lock()
	c, found := r.containers[id]
	if !found {
		r.mu.Unlock()
		return nil
	}
	wait, code := c.stopping(time.Duration(graceSeconds) * time.Second)
	running := c.state(r.now()) == runtimeapi.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()

	if running && wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("stop container %s: %w", id, ctx.Err())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.end(r.now(), code)
	return nil
}

// RemoveContainer forgets a container; one that is already gone is no error.
func (r *Runtime) RemoveContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, id)
	return nil
}

// ListContainers lists the containers which the filter lets through.
func (r *Runtime) ListContainers(_ context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	list := make([]*runtimeapi.Container, 0, len(r.containers))
	for _, c := range r.containers {
		if containerMatches(c, filter, now) {
			list = append(list, c.summary(now))
		}
	}
	return list, nil
}

func containerMatches(c *container, f *runtimeapi.ContainerFilter, now time.Time) bool {
	if f == nil {
		return true
	}
	return (f.Id == "" || f.Id == c.id) &&
		(f.PodSandboxId == "" || f.PodSandboxId == c.sandboxID) &&
		(f.State == nil || f.State.State == c.state(now)) &&
		labelsMatch(c.config.Labels, f.LabelSelector)
}

// ContainerStatus describes one container.
func (r *Runtime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, found := r.containers[id]
	if !found {
		return nil, notFound("container", id)
	}
	return &runtimeapi.ContainerStatusResponse{Status: c.status(r.now())}, nil
}

// UpdateContainerResources records new resources, as a resize in place does.
func (r *Runtime) UpdateContainerResources(_ context.Context, id string, resources *runtimeapi.ContainerResources) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, found := r.containers[id]
	if !found {
		return notFound("container", id)
	}
	c.resources = resources.GetLinux()
	return nil
}

// notFound is the error by which the kubelet knows that something is gone.
func notFound(what, id string) error {
	return status.Errorf(codes.NotFound, "%s %q not found", what, id)
}

func newID() string {
	var id [32]byte
	// The reader of crypto/rand never fails; it ends the program instead.
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
