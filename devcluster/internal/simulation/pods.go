package simulation

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// Simulable passes on the pods that the kubelet is to run, without the parts
// that reach for the network address of a container: hooks over HTTP would
// connect to whatever machine has that address in the real network, and a
// startup probe of a sidecar is awaited by a part of the kubelet which cannot
// be told that it passed. Only the kubelet's copy is changed, not the pod in
// the API.
func Simulable(ctx context.Context, updates <-chan kubelettypes.PodUpdate) <-chan kubelettypes.PodUpdate {
	out := make(chan kubelettypes.PodUpdate)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case update, open := <-updates:
				if !open {
					return
				}
				for i, pod := range update.Pods {
					update.Pods[i] = simulablePod(pod)
				}
				out <- update
			}
		}
	}()
	return out
}

// simulablePod works on a copy: the pod given may be read elsewhere.
func simulablePod(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].StartupProbe = nil
		dropNetworkHooks(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		dropNetworkHooks(&pod.Spec.Containers[i])
	}
	return pod
}

func dropNetworkHooks(c *v1.Container) {
	if c.Lifecycle == nil {
		return
	}
	for _, hook := range []**v1.LifecycleHandler{&c.Lifecycle.PostStart, &c.Lifecycle.PreStop} {
		if h := *hook; h != nil && (h.HTTPGet != nil || h.TCPSocket != nil) {
			*hook = nil
		}
	}
}

// PodEvents keeps back the events about the node: the machine below is real,
// and a process of somebody else's that ran out of memory is none of the
// cluster's business.
type PodEvents struct {
	record.EventRecorderLogger
}

// Event drops what is about the node.
func (e PodEvents) Event(object runtime.Object, kind, reason, message string) {
	if !aboutNode(object) {
		e.EventRecorderLogger.Event(object, kind, reason, message)
	}
}

// Eventf drops what is about the node.
func (e PodEvents) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	if !aboutNode(object) {
		e.EventRecorderLogger.Eventf(object, kind, reason, format, args...)
	}
}

// AnnotatedEventf drops what is about the node.
func (e PodEvents) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	if !aboutNode(object) {
		e.EventRecorderLogger.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	}
}

// WithLogger keeps dropping.
func (e PodEvents) WithLogger(logger klog.Logger) record.EventRecorderLogger {
	return PodEvents{EventRecorderLogger: e.EventRecorderLogger.WithLogger(logger)}
}

func aboutNode(object runtime.Object) bool {
	ref, ok := object.(*v1.ObjectReference)
	return ok && ref.Kind == "Node"
}
