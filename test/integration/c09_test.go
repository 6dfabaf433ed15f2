package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC09: a StatefulSet with a partition. The wait used to have no end although nothing more was meant to roll; and the
// pods below the partition still run on the old config, which stays until the partition is lowered.
func TestC09(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(partitioned("1", 0))
	s.follow()
	s.deploy("db")
	s.awaitReady("db", r1)
	first := s.generatedName("app", "1")

	r2 := s.push(partitioned("2", 2))
	s.awaitReady("db", r2)
	kept := s.awaitRetained("db", s.cmID(first), v1.RetainedInUse)
	for _, pod := range []string{"Pod/" + s.namespace + "/db-0", "Pod/" + s.namespace + "/db-1"} {
		if !slices.Contains(kept.Users, pod) {
			t.Errorf("the users are %v, want %s among them", kept.Users, pod)
		}
	}
	if slices.Contains(kept.Users, "Pod/"+s.namespace+"/db-2") {
		t.Errorf("db-2 runs on the new config, but the users are %v", kept.Users)
	}
	second := s.generatedName("app", "2")

	// At a partition of all replicas nothing rolls: ready at once, and both configs are in use.
	r3 := s.push(partitioned("3", 3))
	s.awaitReady("db", r3)
	s.awaitRetained("db", s.cmID(first), v1.RetainedInUse)
	s.awaitRetained("db", s.cmID(second), v1.RetainedInUse)

	r4 := s.push(partitioned("3", 0))
	s.awaitReady("db", r4)
	eventuallyGone(t, within, s.cm(first))
	eventuallyGone(t, within, s.cm(second))
}

// partitioned is a StatefulSet of three pods that runs on a generated ConfigMap, updated from a partition on.
func partitioned(value string, partition int) map[string]string {
	return map[string]string{
		"kustomization.yaml": generated(value, []string{"app"}, "db.yaml"),
		"db.yaml": strings.TrimSpace(fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  podManagementPolicy: Parallel
  updateStrategy: {rollingUpdate: {partition: %d}}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: %s
        envFrom: [{configMapRef: {name: app}}]
`, partition, goodImage)),
	}
}
