package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// orderedSet is the manifest of a StatefulSet with two replicas, one pod after another.
func orderedSet(name, image string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s}
spec:
  replicas: 2
  serviceName: %[1]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: %[2]s}
`, name, image)
}

// An ordered StatefulSet waits for a pod whose template is wrong, also when the template is right again: Kubernetes never gets
// past it (kubernetes/kubernetes#67250). That pod, and no other, is deleted, so that both ways work without a person: forward,
// and back.
func TestStatefulSetGetsPastAFailedTemplate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ good, bad, next string }{
		"forward, image missing": {goodImage, missingImage, "registry.example/web:2"},
		"forward, crashes":       {goodImage, crashImage, "registry.example/web:2"},
		"back":                   {goodImage, missingImage, goodImage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			r1 := s.push(map[string]string{"db.yaml": orderedSet("db", tt.good)})
			s.follow()
			s.deploy("db")
			s.awaitReady("db", r1)
			first := s.pod("db-0")
			s.push(map[string]string{"db.yaml": orderedSet("db", tt.bad)})
			s.awaitFailing("db-1", tt.bad)
			r3 := s.push(map[string]string{"db.yaml": orderedSet("db", tt.next)})
			s.awaitReady("db", r3)
			s.awaitEvent("db", "Normal", "Progressing", "Pod/"+s.namespace+"/db-1 is not ready, runs a template of StatefulSet/"+s.namespace+"/db that is given up")
			if tt.next == tt.good {
				s.sameUID(&first, string(first.UID))
			}
		})
	}
}

// The first template of a StatefulSet may be the wrong one.
func TestStatefulSetGetsPastAFailedFirstTemplate(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.push(map[string]string{"db.yaml": orderedSet("db", missingImage)})
	s.follow()
	s.deploy("db")
	s.awaitFailing("db-0", missingImage)
	r2 := s.push(map[string]string{"db.yaml": orderedSet("db", goodImage)})
	s.awaitReady("db", r2)
}

// pod reads a pod of the scenario's namespace.
func (s *scenario) pod(name string) corev1.Pod {
	s.t.Helper()
	pod := corev1.Pod{}
	if err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &pod); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// awaitFailing waits until a pod runs an image, and can't.
func (s *scenario) awaitFailing(name, image string) {
	s.t.Helper()
	eventually(s.t, within, "pod "+name+" fails with "+image, func(ctx context.Context) error {
		pod := corev1.Pod{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, &pod); err != nil {
			return err
		}
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; pod.Spec.Containers[0].Image == image && w != nil && w.Reason != "ContainerCreating" {
				return nil
			}
		}
		return fmt.Errorf("it has %s, %v", pod.Spec.Containers[0].Image, pod.Status.ContainerStatuses)
	})
}
