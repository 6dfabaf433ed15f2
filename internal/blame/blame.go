// Package blame tells a bad release from a bad moment: whether what keeps a workload from being healthy is a fault of its
// revision, so that going back helps, or one of the cluster around it, so that it would not.
//
// It is pure: it judges what was read, and when in doubt it finds no fault with the revision.
package blame

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Evidence is what was seen of one object that is not healthy.
type Evidence struct {
	ID object.ID
	// Pods of its newest template.
	Pods []corev1.Pod
	// Refusal is what the API server said when the workload's controller could not create its pods; empty if it could.
	Refusal string
	// Failed says that the object itself ended for good, as a Job that used up its retries.
	Failed bool
}

// Finding is what is wrong with one pod, or with a workload that has none.
type Finding struct {
	// ID of the object as Kind/namespace/name.
	ID string
	// Pod and Container are empty where the workload itself is meant.
	Pod, Container  string
	Reason, Message string
	// Release is true when it is a fault of the revision.
	Release bool
}

// workloads are the kinds that can be at fault. A nested Kustomization or HelmRelease never is: it has a verdict of its own.
var workloads = []string{"Deployment.apps", "StatefulSet.apps", "DaemonSet.apps", "ReplicaSet.apps", "Job.batch", "CronJob.batch", "Pod"}

// IsWorkload tells whether an object of this kind can be at fault.
func IsWorkload(id object.ID) bool { return slices.Contains(workloads, id.GroupKind().String()) }

// IsBadRelease tells whether any of the findings is a fault of the revision.
func IsBadRelease(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Release })
}

// Of returns what is wrong with an object, faults of the revision first.
func Of(e Evidence) []Finding {
	if !IsWorkload(e.ID) {
		return nil
	}
	var findings []Finding
	if e.Refusal != "" {
		findings = append(findings, Finding{Reason: "FailedCreate", Message: e.Refusal, Release: !isOutside(e.Refusal)})
	}
	if e.Failed {
		findings = append(findings, Finding{Reason: "Failed", Release: true})
	}
	for i := range e.Pods {
		if f := ofPod(&e.Pods[i]); f != nil {
			findings = append(findings, *f)
		}
	}
	for i := range findings {
		findings[i].ID = e.ID.String()
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Or(first(a.Release, b.Release), cmp.Compare(a.Pod, b.Pod)) })
	return findings
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// ofPod returns the fault of a pod; nil for one that is ready, done or on its way out.
func ofPod(pod *corev1.Pod) *Finding {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || isReady(pod) {
		return nil
	}
	if pod.Status.Phase == corev1.PodFailed && circumstances[pod.Status.Reason] {
		return &Finding{Pod: pod.Name, Reason: pod.Status.Reason, Message: pod.Status.Message}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if f := ofContainer(s); f != nil {
			f.Pod = pod.Name
			return f
		}
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return &Finding{Pod: pod.Name, Reason: cmp.Or(c.Reason, "Unschedulable"), Message: c.Message}
	}
	if pod.Status.Phase == corev1.PodRunning && nodeIsThere(pod) {
		return &Finding{Pod: pod.Name, Reason: "NotReady", Message: "its containers run and are not ready", Release: true}
	}
	return &Finding{Pod: pod.Name, Reason: string(cmp.Or(pod.Status.Phase, corev1.PodPending)), Message: pod.Status.Message}
}

// circumstances are the reasons of pods that ended for what happened around them.
var circumstances = map[string]bool{
	"Evicted": true, "NodeLost": true, "NodeShutdown": true, "Terminated": true, "Preempting": true, "UnexpectedAdmissionError": true,
	"NodeAffinity": true, "OutOfcpu": true, "OutOfmemory": true, "OutOfpods": true, "Shutdown": true,
}

// releaseFaults are the reasons of containers that the revision is to blame for. A container that is merely being created is
// not among them: what it waits for, such as a volume, is not told.
var releaseFaults = map[string]bool{
	"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true, "CrashLoopBackOff": true,
	"InvalidImageName": true, "ErrImageNeverPull": true, "ContainerCannotRun": true, "StartError": true, "PostStartHookError": true,
}

func ofContainer(s corev1.ContainerStatus) *Finding {
	f := &Finding{Container: s.Name}
	switch w, t := s.State.Waiting, s.State.Terminated; {
	case w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff"):
		f.Reason, f.Message, f.Release = w.Reason, w.Message, !isOutside(w.Message)
	case w != nil && releaseFaults[w.Reason]:
		f.Reason, f.Message, f.Release = w.Reason, w.Message, !isOutside(w.Message)
		if w.Reason == "PostStartHookError" {
			f.Message = "" // it quotes what the hook printed
		}
	case t != nil && t.ExitCode != 0:
		// The message of the container is left out: it may be the end of its log, with whatever is in there.
		f.Reason, f.Message, f.Release = cmp.Or(t.Reason, "Error"), fmt.Sprintf("exits with %d", t.ExitCode), true
	default:
		return nil
	}
	return f
}

// outside are words of errors that come from something that does not answer or has no room, not from what was asked of it.
var outside = []string{
	"timeout", "timed out", "deadline exceeded", "connection refused", "connection reset", "no such host", "no route to host",
	"network is unreachable", "tls handshake", "unexpected eof", "too many requests", "toomanyrequests", "service unavailable",
	"bad gateway", "internal server error", "server misbehaving", "temporary failure", "i/o error", "failed calling webhook", "exceeded quota",
}

// isOutside tells whether an error speaks of the surroundings.
func isOutside(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc(outside, func(words string) bool { return strings.Contains(message, words) })
}

func isReady(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// nodeIsThere tells whether the node still speaks for the pod. When a node is lost, the control plane says so in the condition.
func nodeIsThere(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c == nil || c.Reason != "NodeNotReady"
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
