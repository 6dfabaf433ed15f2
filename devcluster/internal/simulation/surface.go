package simulation

import (
	"context"
	"errors"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The rest of the runtime API: what a kubelet asks for at its start, and what
// nobody can do with a container that is not there.

var errNotSimulated = errors.New("containers of a devcluster are simulated: there is no process to reach")

// Version names the runtime.
func (*Runtime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version:           "0.1.0",
		RuntimeName:       "devcluster",
		RuntimeVersion:    "1.0.0",
		RuntimeApiVersion: "v1",
	}, nil
}

// Status says that runtime and network are ready.
func (*Runtime) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{
		Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			{Type: runtimeapi.NetworkReady, Status: true},
		},
	}}, nil
}

// UpdateRuntimeConfig accepts and ignores the node's pod range.
func (*Runtime) UpdateRuntimeConfig(context.Context, *runtimeapi.RuntimeConfig) error { return nil }

// RuntimeConfig has nothing to tell.
func (*Runtime) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{}, nil
}

// Close has nothing to close.
func (*Runtime) Close(context.Context) error { return nil }

// ExecSync succeeds without output: it serves exec hooks and probes.
func (*Runtime) ExecSync(context.Context, string, []string, time.Duration) ([]byte, []byte, error) {
	return nil, nil, nil
}

// Exec is refused.
func (*Runtime) Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return nil, errNotSimulated
}

// Attach is refused.
func (*Runtime) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return nil, errNotSimulated
}

// PortForward is refused.
func (*Runtime) PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return nil, errNotSimulated
}

// ReopenContainerLog has no log to reopen.
func (*Runtime) ReopenContainerLog(context.Context, string) error { return nil }

// CheckpointContainer is refused.
func (*Runtime) CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest) error {
	return errNotSimulated
}

// GetContainerEvents is refused; the kubelet then lists instead.
func (*Runtime) GetContainerEvents(context.Context, chan *runtimeapi.ContainerEventResponse, func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	return errNotSimulated
}

// UpdatePodSandboxResources accepts and ignores resources of a whole pod.
func (*Runtime) UpdatePodSandboxResources(context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

// ContainerStats is refused: nothing is used.
func (*Runtime) ContainerStats(context.Context, string) (*runtimeapi.ContainerStats, error) {
	return nil, errNotSimulated
}

// ListContainerStats lists nothing.
func (*Runtime) ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	return nil, nil
}

// PodSandboxStats is refused: nothing is used.
func (*Runtime) PodSandboxStats(context.Context, string) (*runtimeapi.PodSandboxStats, error) {
	return nil, errNotSimulated
}

// ListPodSandboxStats lists nothing.
func (*Runtime) ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	return nil, nil
}

// ListMetricDescriptors lists nothing.
func (*Runtime) ListMetricDescriptors(context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return nil, nil
}

// ListPodSandboxMetrics lists nothing.
func (*Runtime) ListPodSandboxMetrics(context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return nil, nil
}
