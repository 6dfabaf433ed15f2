package simulation

import (
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exit code of a process that was killed, as a shell reports it.
const exitCodeKilled = 137

// container is a container's life: created, started, ended. Nothing runs in
// between, so its state is computed from the clock whenever someone asks.
type container struct {
	id        string
	sandboxID string
	config    *runtimeapi.ContainerConfig
	resources *runtimeapi.LinuxContainerResources
	behavior  behavior

	created  time.Time
	started  time.Time
	ended    time.Time
	exitCode int32
}

// settle ends the container if the time of its own exit has come.
func (c *container) settle(now time.Time) {
	if c.started.IsZero() || !c.ended.IsZero() || !c.behavior.exits {
		return
	}
	if exit := c.started.Add(c.behavior.exitAfter); !exit.After(now) {
		c.ended, c.exitCode = exit, c.behavior.exitCode
	}
}

// end ends the container unless it has ended by itself before.
func (c *container) end(now time.Time, code int32) {
	c.settle(now)
	if c.ended.IsZero() {
		c.ended, c.exitCode = now, code
	}
}

func (c *container) state(now time.Time) runtimeapi.ContainerState {
	c.settle(now)
	switch {
	case !c.ended.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case !c.started.IsZero():
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	default:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	}
}

// stopping returns how long the container takes to stop within its grace
// period, and the code it then exits with.
func (c *container) stopping(grace time.Duration) (time.Duration, int32) {
	if c.behavior.stopAfter > grace {
		return max(0, grace), exitCodeKilled
	}
	return c.behavior.stopAfter, 0
}

func (c *container) summary(now time.Time) *runtimeapi.Container {
	return &runtimeapi.Container{
		Id:           c.id,
		PodSandboxId: c.sandboxID,
		Metadata:     c.config.Metadata,
		Image:        c.config.Image,
		ImageRef:     c.config.Image.GetImage(),
		ImageId:      c.config.Image.GetImage(),
		State:        c.state(now),
		CreatedAt:    c.created.UnixNano(),
		Labels:       c.config.Labels,
		Annotations:  c.config.Annotations,
	}
}

func (c *container) status(now time.Time) *runtimeapi.ContainerStatus {
	s := &runtimeapi.ContainerStatus{
		Id:          c.id,
		Metadata:    c.config.Metadata,
		State:       c.state(now),
		CreatedAt:   c.created.UnixNano(),
		Image:       c.config.Image,
		ImageRef:    c.config.Image.GetImage(),
		ImageId:     c.config.Image.GetImage(),
		Labels:      c.config.Labels,
		Annotations: c.config.Annotations,
		Mounts:      c.config.Mounts,
		LogPath:     c.config.LogPath,
	}
	if c.resources != nil {
		s.Resources = &runtimeapi.ContainerResources{Linux: proto.Clone(c.resources).(*runtimeapi.LinuxContainerResources)}
	}
	if !c.started.IsZero() {
		s.StartedAt = c.started.UnixNano()
	}
	if !c.ended.IsZero() {
		s.FinishedAt, s.ExitCode, s.Reason = c.ended.UnixNano(), c.exitCode, exitReason(c.exitCode)
	}
	return s
}

func exitReason(code int32) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}
