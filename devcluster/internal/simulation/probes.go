package simulation

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Probes stands in for the kubelet's probe manager: it decides readiness from
// the state of the containers and the annotations of the pod. It also knows
// which containers are init containers, which the runtime has to ask.
type Probes struct {
	// Resync makes the kubelet look at a pod again. It is set once, before
	// the first pod arrives.
	Resync func(namespace, name string, uid types.UID)

	now   func() time.Time
	after func(time.Duration, func()) *time.Timer

	mu   sync.Mutex
	pods map[types.UID]*probedPod
}

type probedPod struct {
	init  sets.Set[string]
	timer *time.Timer
}

var _ Pods = (*Probes)(nil)

// NewProbes returns a manager that knows no pods yet.
func NewProbes() *Probes {
	return &Probes{
		Resync: func(string, string, types.UID) {},
		now:    time.Now,
		after:  time.AfterFunc,
		pods:   map[types.UID]*probedPod{},
	}
}

// AddPod is called before any container of the pod is created.
func (p *Probes) AddPod(_ context.Context, pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.podLocked(pod)
}

func (p *Probes) podLocked(pod *v1.Pod) *probedPod {
	known, found := p.pods[pod.UID]
	if !found {
		known = &probedPod{init: plainInitContainers(pod)}
		p.pods[pod.UID] = known
	}
	return known
}

// IsInitContainer implements Pods.
func (p *Probes) IsInitContainer(podUID, container string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, found := p.pods[types.UID(podUID)]
	return found && known.init.Has(container)
}

// StopLivenessAndStartup has no probes to stop.
func (p *Probes) StopLivenessAndStartup(*v1.Pod) {}

// RemovePod forgets a pod.
func (p *Probes) RemovePod(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked(pod.UID)
}

// CleanupPods forgets every pod but those desired.
func (p *Probes) CleanupPods(desired map[types.UID]sets.Empty) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid := range p.pods {
		if _, wanted := desired[uid]; !wanted {
			p.forgetLocked(uid)
		}
	}
}

func (p *Probes) forgetLocked(uid types.UID) {
	if known, found := p.pods[uid]; found && known.timer != nil {
		known.timer.Stop()
	}
	delete(p.pods, uid)
}

// UpdatePodStatus sets what probes would have found: a container is started
// and ready only while it runs. If a container gets ready later, or is going to
// wait for its restart, the kubelet is told to look again then.
func (p *Probes) UpdatePodStatus(_ context.Context, pod *v1.Pod, status *v1.PodStatus) {
	var again time.Duration
	for i := range status.ContainerStatuses {
		again = max(again, p.setReady(pod, &status.ContainerStatuses[i]))
	}
	plain := plainInitContainers(pod)
	for i := range status.InitContainerStatuses {
		s := &status.InitContainerStatuses[i]
		if plain.Has(s.Name) {
			s.Started = new(s.State.Running != nil)
			s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
			continue
		}
		again = max(again, p.setReady(pod, s))
	}
	if again > 0 {
		p.lookAgain(pod, again)
	}
}

// setReady fills in one status and returns in how long it will change by itself.
func (p *Probes) setReady(pod *v1.Pod, s *v1.ContainerStatus) time.Duration {
	running := s.State.Running
	s.Started, s.Ready = new(running != nil), false
	if running == nil {
		return untilBackOff(pod, s.State.Terminated)
	}
	wait, ok := readyIn(pod.Annotations, p.now().Sub(running.StartedAt.Time))
	s.Ready = ok && wait == 0
	return wait
}

// backOffShown is when CrashLoopBackOff is shown: the kubelet publishes that a
// container waits for its restart when it looks at the pod the next time, which
// by itself may be when the wait is over.
const backOffShown = time.Second

func untilBackOff(pod *v1.Pod, ended *v1.ContainerStateTerminated) time.Duration {
	if ended == nil || pod.DeletionTimestamp != nil || pod.Spec.RestartPolicy == v1.RestartPolicyNever {
		return 0
	}
	if ended.ExitCode == 0 && pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure {
		return 0
	}
	return backOffShown
}

func (p *Probes) lookAgain(pod *v1.Pod, in time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.podLocked(pod)
	if known.timer != nil {
		known.timer.Stop()
	}
	namespace, name, uid := pod.Namespace, pod.Name, pod.UID
	known.timer = p.after(in, func() { p.Resync(namespace, name, uid) })
}

func plainInitContainers(pod *v1.Pod) sets.Set[string] {
	names := sets.New[string]()
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; !isSidecar(c) {
			names.Insert(c.Name)
		}
	}
	return names
}

// isSidecar tells the init containers that keep running from those that end.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}
