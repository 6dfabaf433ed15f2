package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC07: a Deployment is replaced by a StatefulSet behind the same Service. The old workload used to be pruned before its
// replacement served. Here it serves through the failure of the replacement and through the timeout, and goes when a revision is healthy.
func TestC07(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n"
	old := strings.ReplaceAll(deployment("web", goodImage, ""), "{app: web}", "{app: web, is: old}")
	r1 := s.push(map[string]string{"svc.yaml": service, "web.yaml": old})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.Timeout.Duration = 5 * time.Second })
	s.awaitReady("app", r1)
	s.awaitServing("web", "old", 2)
	uid := s.uid(s.deploymentOf("web"))

	s.push(map[string]string{"svc.yaml": service, "set.yaml": statefulSet(`{devcluster.holdfast.dev/unready: "true"}`)})
	s.awaitRetained("app", s.id("apps/Deployment", "web"), v1.RetainedAwaitingHealth)
	s.awaitServing("web", "old", 2)
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "HealthCheckFailed", "StatefulSet/"+s.namespace+"/web-ss", "Deployment/"+s.namespace+"/web")
	s.sameUID(s.deploymentOf("web"), uid)
	s.awaitServing("web", "old", 2)

	r3 := s.push(map[string]string{"svc.yaml": service, "set.yaml": statefulSet("{}")})
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.deploymentOf("web"))
	s.awaitDropped("app", s.id("apps/Deployment", "web"))
	s.awaitServing("web", "new", 2)
	s.stays(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web-ss"}})
}

// statefulSet is a StatefulSet web-ss whose pods have annotations.
func statefulSet(annotations string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web-ss}
spec:
  replicas: 2
  serviceName: web
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web, is: new}}
  template:
    metadata: {labels: {app: web, is: new}, annotations: %s}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: %s}]
`, annotations, goodImage)
}

// awaitServing waits until a number of pods with a label are ready behind a Service.
func (s *scenario) awaitServing(service, is string, n int) {
	s.t.Helper()
	eventually(s.t, within, fmt.Sprintf("%d %s pods serve %s", n, is, service), func(ctx context.Context) error {
		slices := &discoveryv1.EndpointSliceList{}
		if err := kube.List(ctx, slices, client.InNamespace(s.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return err
		}
		ready, err := s.readyPods(ctx)
		if err != nil {
			return err
		}
		serving := 0
		for _, slice := range slices.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready && e.TargetRef != nil && ready[e.TargetRef.Name].Labels["is"] == is {
					serving++
				}
			}
		}
		if serving != n {
			return fmt.Errorf("%d do", serving)
		}
		return nil
	})
}
