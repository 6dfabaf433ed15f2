package report_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-gitops/holdfast/internal/report"
)

func TestTroublesOf(t *testing.T) {
	waiting := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
	}
	crashed := waiting("CrashLoopBackOff", "back-off 10s")
	crashed.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Message: "no config"}
	tests := map[string]struct {
		status                  corev1.PodStatus
		wantReason, wantMessage string
	}{
		"image":         {waiting("ErrImagePull", "not found"), "ErrImagePull", "not found"},
		"config":        {waiting("CreateContainerConfigError", `configmap "a" not found`), "CreateContainerConfigError", `configmap "a" not found`},
		"crash":         {crashed, "CrashLoopBackOff", "exits with 3: no config"},
		"starting":      {waiting("ContainerCreating", ""), "ContainerCreating", ""},
		"no room":       {corev1.PodStatus{Conditions: condition(corev1.PodScheduled, "Unschedulable", "0/1 nodes")}, "Unschedulable", "0/1 nodes"},
		"failing probe": {corev1.PodStatus{Conditions: condition(corev1.PodReady, "ContainersNotReady", "unready: [main]")}, "NotReady", "unready: [main]"},
		"evicted":       {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "disk"}, "Evicted", "disk"},
		"done":          {corev1.PodStatus{Phase: corev1.PodSucceeded}, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := report.TroublesOf([]corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: test.status}})
			if test.wantReason == "" {
				if len(got) > 0 {
					t.Errorf("got %+v, want no trouble", got)
				}
				return
			}
			if len(got) != 1 || got[0].Reason != test.wantReason || got[0].Message != test.wantMessage {
				t.Errorf("got %+v, want %s: %s", got, test.wantReason, test.wantMessage)
			}
		})
	}
}

func condition(kind corev1.PodConditionType, reason, message string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
}

func TestShort(t *testing.T) {
	for long, want := range map[string]string{
		revision2 + " is healthy":     "main@2222222 is healthy",
		"sha1:" + revision2[10:]:      "2222222",
		"v1.2.3":                      "v1.2.3",
		"a " + revision1 + revision2:  "a main@1111111main@2222222",
		"refs/pull/1/head@sha1:12345": "refs/pull/1/head@sha1:12345",
	} {
		if got := report.Short(long); got != want {
			t.Errorf("Short(%q) = %q, want %q", long, got, want)
		}
	}
}
