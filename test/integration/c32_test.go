package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestC32: one object of many has failed for good, and the wait ran to its timeout, to list them all. Here the timeout is far beyond the
// patience of the test, and the one is named alone. Nothing is pruned before it is mended, which is told.
func TestC32(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{"job.yaml": endingJob("migrate", "exit0", 3600, "1"), "old.yaml": configMap("old", "1")}
	for i := range 60 {
		files[fmt.Sprintf("c%02d.yaml", i)] = configMap(fmt.Sprintf("c%02d", i), "1")
	}
	r1 := s.push(files)
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)

	delete(files, "old.yaml")
	files["job.yaml"] = endingJob("broken", "crash", 3600, "1")
	s.push(files)
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "HealthCheckFailed", "Job/"+s.namespace+"/broken")
	for _, c := range ks.Status.Conditions {
		if strings.Contains(c.Message, "/c00") {
			t.Errorf("%s names an object that is ready: %s", c.Type, c.Message)
		}
	}
	if n := len(ks.Status.Rollout.Culprits); n != 1 {
		t.Errorf("%d objects are to blame: %v", n, ks.Status.Rollout.Culprits)
	}
	s.stays(s.cm("old"), s.jobOf("migrate"))

	files["job.yaml"] = endingJob("mended", "exit0", 3600, "1")
	r3 := s.push(files)
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.cm("old"))
	s.awaitEvent("app", "Normal", "Progressing", "Health check passed")
}
