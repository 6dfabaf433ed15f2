package observe

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/paging"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// OrderedSet reads a StatefulSet and its pods, for a decision about what keeps it from going on. The second result is false for one
// that does not replace its pods one after another, or is gone.
func (o *Observer) OrderedSet(ctx context.Context, id object.ID) (plan.OrderedSet, bool, error) {
	set := &appsv1.StatefulSet{}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(id.Kind))
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, u)
	switch {
	case IsAbsent(err):
		return plan.OrderedSet{}, false, nil
	case err != nil:
		return plan.OrderedSet{}, false, fmt.Errorf("read %s: %w", id, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, set); err != nil {
		return plan.OrderedSet{}, false, fmt.Errorf("understand %s: %w", id, err)
	}
	if set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType ||
		set.DeletionTimestamp != nil {
		return plan.OrderedSet{}, false, nil
	}
	pods, err := o.orderedPods(ctx, set)
	if err != nil {
		return plan.OrderedSet{}, false, fmt.Errorf("list the pods of %s: %w", id, err)
	}
	return plan.OrderedSet{
		ID:              id,
		CreatedAt:       set.CreationTimestamp.Time,
		Observed:        set.Status.ObservedGeneration == set.Generation,
		CurrentRevision: set.Status.CurrentRevision,
		UpdateRevision:  set.Status.UpdateRevision,
		Pods:            pods,
	}, true, nil
}

// orderedPods are the pods that the StatefulSet controls. A label alone makes no pod one of its own.
func (o *Observer) orderedPods(ctx context.Context, set *appsv1.StatefulSet) ([]plan.OrderedPod, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var pods []plan.OrderedPod
	opts := client.ListOptions{Namespace: set.Namespace, LabelSelector: selector, Limit: listPage}
	err = paging.Each(ctx, o.Reader, opts, listOf(corev1.SchemeGroupVersion.WithKind(podKind.Kind)), func(page *unstructured.UnstructuredList) (bool, error) {
		for i := range page.Items {
			pod := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(page.Items[i].Object, pod); err != nil {
				return false, err
			}
			if metav1.IsControlledBy(pod, set) {
				pods = append(pods, orderedPod(pod))
			}
		}
		return false, nil
	})
	return pods, err
}

func orderedPod(pod *corev1.Pod) plan.OrderedPod {
	ready, since := readiness(pod)
	return plan.OrderedPod{
		ID:              object.ID{Kind: podKind.Kind, Namespace: pod.Namespace, Name: pod.Name},
		UID:             string(pod.UID),
		ResourceVersion: pod.ResourceVersion,
		Revision:        pod.Labels[appsv1.StatefulSetRevisionLabel],
		Ready:           ready,
		Leaving:         pod.DeletionTimestamp != nil,
		Failing:         isFailing(pod),
		UnreadySince:    since,
	}
}

// readiness tells whether a pod is ready, and since when that is as it is.
func readiness(pod *corev1.Pod) (ready bool, since time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, pod.CreationTimestamp.Time
}

// isFailing tells whether a container of the pod waits for something that will not come by itself, or ended with an error. The two
// reasons that are none are what every pod goes through.
func isFailing(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			waiting, ended := c.State.Waiting, c.State.Terminated
			if waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
				return true
			}
			if ended != nil && ended.ExitCode != 0 {
				return true
			}
		}
	}
	return false
}
