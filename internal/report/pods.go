package report

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxTroubles bounds the pods that are shown of one workload.
const maxTroubles = 5

// harmless are the reasons of containers that are merely on their way.
var harmless = []string{"ContainerCreating", "PodInitializing"}

// TroublesOf returns the pods that are not ready, with the reason of Kubernetes: those with a fault first.
func TroublesOf(pods []corev1.Pod) []PodTrouble {
	var troubles []PodTrouble
	for i := range pods {
		if t := troubleOf(&pods[i]); t != nil {
			troubles = append(troubles, *t)
		}
	}
	slices.SortStableFunc(troubles, func(a, b PodTrouble) int {
		return cmp.Or(cmp.Compare(severity(a), severity(b)), cmp.Compare(a.Pod, b.Pod))
	})
	return troubles[:min(len(troubles), maxTroubles)]
}

func severity(t PodTrouble) int {
	if slices.Contains(harmless, t.Reason) || t.Reason == notReady {
		return 1
	}
	return 0
}

// notReady is the reason of a pod whose containers run and that is not ready.
const notReady = "NotReady"

// troubleOf returns the trouble of one pod; nil for one that is fine or on its way out.
func troubleOf(pod *corev1.Pod) *PodTrouble {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || PodReady(pod) {
		return nil
	}
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, s := range statuses {
		if t := containerTrouble(pod.Name, s); t != nil {
			return t
		}
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return &PodTrouble{Pod: pod.Name, Reason: cmp.Or(c.Reason, "Unscheduled"), Message: c.Message}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return &PodTrouble{Pod: pod.Name, Reason: cmp.Or(pod.Status.Reason, "Failed"), Message: pod.Status.Message}
	}
	t := &PodTrouble{Pod: pod.Name, Reason: notReady}
	if c := podCondition(pod, corev1.PodReady); c != nil {
		t.Message = c.Message
	}
	return t
}

// containerTrouble returns the trouble of a container that waits or has failed.
func containerTrouble(pod string, s corev1.ContainerStatus) *PodTrouble {
	t := &PodTrouble{Pod: pod, Container: s.Name, Restarts: s.RestartCount}
	switch {
	case s.State.Waiting != nil:
		t.Reason, t.Message = cmp.Or(s.State.Waiting.Reason, "Waiting"), s.State.Waiting.Message
		if last := s.LastTerminationState.Terminated; last != nil {
			t.Message, t.Since = exitText(last), ended(last)
		}
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		t.Reason = cmp.Or(s.State.Terminated.Reason, "Error")
		t.Message, t.Since = exitText(s.State.Terminated), ended(s.State.Terminated)
	default:
		return nil
	}
	return t
}

func exitText(s *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exits with %d", s.ExitCode)
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

func ended(s *corev1.ContainerStateTerminated) *metav1.Time {
	if s.FinishedAt.IsZero() {
		return nil
	}
	return &s.FinishedAt
}

// PodReady tells whether the pod has the condition Ready.
func PodReady(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
