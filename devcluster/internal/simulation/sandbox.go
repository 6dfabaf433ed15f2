package simulation

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is what a pod's containers share: here, an address.
type sandbox struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	handler string
	ip      string
	created time.Time
	stopped bool
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.stopped {
		return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return runtimeapi.PodSandboxState_SANDBOX_READY
}

// RunPodSandbox creates a sandbox with an address of its own, so that the
// endpoints of a Service list each of its pods.
func (r *Runtime) RunPodSandbox(_ context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ip, err := r.addresses.take()
	if err != nil {
		return "", err
	}
	s := &sandbox{id: newID(), config: config, handler: handler, ip: ip, created: r.now()}
	r.sandboxes[s.id] = s
	return s.id, nil
}

// StopPodSandbox ends what still runs in the sandbox.
func (r *Runtime) StopPodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, found := r.sandboxes[id]
	if !found {
		return notFound("pod sandbox", id)
	}
	s.stopped = true
	for _, c := range r.containers {
		if c.sandboxID == id {
			c.end(r.now(), exitCodeKilled)
		}
	}
	return nil
}

// RemovePodSandbox forgets a sandbox and its containers. As the interface
// asks, one that is already gone is no error.
func (r *Runtime) RemovePodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, found := r.sandboxes[id]
	if !found {
		return nil
	}
	for cid, c := range r.containers {
		if c.sandboxID == id {
			delete(r.containers, cid)
		}
	}
	r.addresses.release(s.ip)
	delete(r.sandboxes, id)
	return nil
}

// PodSandboxStatus describes one sandbox.
func (r *Runtime) PodSandboxStatus(_ context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, found := r.sandboxes[id]
	if !found {
		return nil, notFound("pod sandbox", id)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id:        s.id,
		Metadata:  s.config.Metadata,
		State:     s.state(),
		CreatedAt: s.created.UnixNano(),
		Network:   &runtimeapi.PodSandboxNetworkStatus{Ip: s.ip},
		// The kubelet takes a sandbox without its namespaces for one whose
		// network changed, and would recreate it for ever.
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels:         s.config.Labels,
		Annotations:    s.config.Annotations,
		RuntimeHandler: s.handler,
	}}, nil
}

// ListPodSandbox lists the sandboxes which the filter lets through.
func (r *Runtime) ListPodSandbox(_ context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*runtimeapi.PodSandbox, 0, len(r.sandboxes))
	for _, s := range r.sandboxes {
		if !sandboxMatches(s, filter) {
			continue
		}
		list = append(list, &runtimeapi.PodSandbox{
			Id:             s.id,
			Metadata:       s.config.Metadata,
			State:          s.state(),
			CreatedAt:      s.created.UnixNano(),
			Labels:         s.config.Labels,
			Annotations:    s.config.Annotations,
			RuntimeHandler: s.handler,
		})
	}
	return list, nil
}

func sandboxMatches(s *sandbox, f *runtimeapi.PodSandboxFilter) bool {
	if f == nil {
		return true
	}
	return (f.Id == "" || f.Id == s.id) &&
		(f.State == nil || f.State.State == s.state()) &&
		labelsMatch(s.config.Labels, f.LabelSelector)
}

func labelsMatch(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// addressPool hands out the pod addresses of 10.244.0.0/16 in turn, so that an
// address is not used again while someone may still remember its last pod.
type addressPool struct {
	next uint16
	used map[string]bool
}

func (p *addressPool) take() (string, error) {
	for range 1 << 16 {
		p.next++
		ip := fmt.Sprintf("10.244.%d.%d", p.next>>8, p.next&0xff)
		if low := p.next & 0xff; low == 0 || low == 0xff || p.used[ip] {
			continue
		}
		p.used[ip] = true
		return ip, nil
	}
	return "", fmt.Errorf("no pod address is free in 10.244.0.0/16; delete pods")
}

func (p *addressPool) release(ip string) { delete(p.used, ip) }
