package blame_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-gitops/holdfast/internal/blame"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

var web = object.ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}

func waiting(reason, message string) corev1.Pod {
	return containing(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func containing(state corev1.ContainerState) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: state}}}}
}

func conditioned(phase corev1.PodPhase, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Status: corev1.PodStatus{Phase: phase,
		Conditions: []corev1.PodCondition{{Type: kind, Status: status, Reason: reason}}}}
}

// Each row is what a person would say: is the new version broken, or the cluster?
func TestIsBadRelease(t *testing.T) {
	going := waiting("CrashLoopBackOff", "")
	going.DeletionTimestamp = &metav1.Time{}
	evicted := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}}
	initFails := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{
		{Name: "migrate", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}}}
	tests := map[string]struct {
		evidence blame.Evidence
		want     bool
	}{
		"crashes":                    {blame.Evidence{Pods: []corev1.Pod{waiting("CrashLoopBackOff", "back-off 10s")}}, true},
		"config is missing":          {blame.Evidence{Pods: []corev1.Pod{waiting("CreateContainerConfigError", `configmap "x" not found`)}}, true},
		"secrets are slow to come":   {blame.Evidence{Pods: []corev1.Pod{waiting("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition")}}, false},
		"no such image":              {blame.Evidence{Pods: []corev1.Pod{waiting("ErrImagePull", "manifest unknown")}}, true},
		"no such image, backing off": {blame.Evidence{Pods: []corev1.Pod{waiting("ImagePullBackOff", "Back-off pulling image: not found")}}, true},
		"registry does not answer":   {blame.Evidence{Pods: []corev1.Pod{waiting("ErrImagePull", "dial tcp 10.0.0.1:443: i/o timeout")}}, false},
		"registry is down":           {blame.Evidence{Pods: []corev1.Pod{waiting("ImagePullBackOff", "unexpected status: 503 Service Unavailable")}}, false},
		"init container fails":       {blame.Evidence{Pods: []corev1.Pod{initFails}}, true},
		"ended with an error": {blame.Evidence{Pods: []corev1.Pod{containing(corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})}}, true},
		"is being created":      {blame.Evidence{Pods: []corev1.Pod{waiting("ContainerCreating", "")}}, false},
		"runs and is not ready": {blame.Evidence{Pods: []corev1.Pod{conditioned(corev1.PodRunning, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady")}}, true},
		"node is lost":          {blame.Evidence{Pods: []corev1.Pod{conditioned(corev1.PodRunning, corev1.PodReady, corev1.ConditionFalse, "NodeNotReady")}}, false},
		"no node has room":      {blame.Evidence{Pods: []corev1.Pod{conditioned(corev1.PodPending, corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable")}}, false},
		"evicted":               {blame.Evidence{Pods: []corev1.Pod{evicted}}, false},
		"ready":                 {blame.Evidence{Pods: []corev1.Pod{conditioned(corev1.PodRunning, corev1.PodReady, corev1.ConditionTrue, "")}}, false},
		"done":                  {blame.Evidence{Pods: []corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}}}, false},
		"on its way out":        {blame.Evidence{Pods: []corev1.Pod{going}}, false},
		"no pod at all":         {blame.Evidence{}, false},
		"refused by policy":     {blame.Evidence{Refusal: `pods "web-1" is forbidden: violates PodSecurity "restricted"`}, true},
		"webhook is down":       {blame.Evidence{Refusal: "Internal error occurred: failed calling webhook \"x\": connection refused"}, false},
		"quota is used up":      {blame.Evidence{Refusal: "pods is forbidden: exceeded quota: small"}, false},
		"a Job that used up its retries": {blame.Evidence{ID: object.ID{Group: "batch", Kind: "Job", Name: "migrate"},
			Failed: true}, true},
		"a nested Kustomization": {blame.Evidence{ID: object.ID{Group: "kustomize.toolkit.fluxcd.io", Kind: "Kustomization", Name: "x"},
			Failed: true, Refusal: "no"}, false},
		"one bad pod among many": {blame.Evidence{Pods: []corev1.Pod{waiting("ContainerCreating", ""), evicted, waiting("CrashLoopBackOff", "")}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.evidence.ID == (object.ID{}) {
				tt.evidence.ID = web
			}
			findings := blame.Of(tt.evidence)
			if got := blame.IsBadRelease(findings); got != tt.want {
				t.Errorf("%t, want %t: %+v", got, tt.want, findings)
			}
			if tt.want && (!findings[0].Release || findings[0].ID != tt.evidence.ID.String()) {
				t.Errorf("the fault does not come first, or is not named: %+v", findings)
			}
		})
	}
}

// What a container wrote before it ended may be the end of its log, and is not told.
func TestNothingOfALogIsTold(t *testing.T) {
	for _, pod := range []corev1.Pod{
		containing(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "hunter2"}}),
		waiting("PostStartHookError", "hunter2"),
	} {
		for _, f := range blame.Of(blame.Evidence{ID: web, Pods: []corev1.Pod{pod}}) {
			if strings.Contains(f.Message, "hunter2") || !f.Release {
				t.Errorf("%+v", f)
			}
		}
	}
}
