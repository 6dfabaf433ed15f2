package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC18: with force, a typo deleted the live object and the new one was refused; volumes were lost the same way. Only
// what can't be changed in place, and would be accepted anew, is recreated (P85).
func TestC18(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	service := func(ports string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: svc}\nspec: {ports: " + ports + "}\n"
	}
	claim := func(size string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}\n", size)
	}
	none := func(name string) string {
		return replaceOnce(deployment(name, goodImage, ""), "replicas: 2", "replicas: 0")
	}
	moved := func(name string) string {
		return replaceOnce(none(name), "matchLabels: {app: "+name+"}", "matchLabels: {app: "+name+", tier: front}")
	}
	r1 := s.push(map[string]string{
		"typo/a.yaml": service("[{port: 80}]"), "claim/a.yaml": claim("2Gi"),
		"selector/a.yaml": none("selector"), "broken/a.yaml": none("broken"), "plain/a.yaml": none("plain"),
	})
	s.follow()
	live := map[string]client.Object{
		"typo":     &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "svc"}},
		"claim":    &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "data"}},
		"selector": s.deploymentOf("selector"), "broken": s.deploymentOf("broken"), "plain": s.deploymentOf("plain"),
	}
	uids := map[string]string{}
	for path := range live {
		s.deploy(path, at(path), unwaited, func(ks *v1.Kustomization) { ks.Spec.Force = path != "plain" })
	}
	for path, object := range live {
		s.awaitReady(path, r1)
		uids[path] = s.uid(object)
	}
	r2 := s.push(map[string]string{
		"typo/a.yaml": service("[]"), "claim/a.yaml": claim("1Gi"),
		"selector/a.yaml": replaceOnce(moved("selector"), "labels: {app: selector}", "labels: {app: selector, tier: front}"),
		"broken/a.yaml":   moved("broken"),
		"plain/a.yaml":    replaceOnce(moved("plain"), "labels: {app: plain}", "labels: {app: plain, tier: front}"),
	})
	s.awaitMessage("typo", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Service/"+s.namespace+"/svc dry-run failed (Invalid)", "spec.ports")
	s.awaitMessage("claim", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "PersistentVolumeClaim/"+s.namespace+"/data", "kustomize.toolkit.fluxcd.io/force: enabled")
	s.awaitMessage("broken", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Deployment/"+s.namespace+"/broken", "selector")
	s.awaitMessage("plain", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Deployment/"+s.namespace+"/plain", "spec.selector", "immutable")
	for _, path := range []string{"typo", "claim", "broken", "plain"} {
		s.request(path)
		s.sameUID(live[path], uids[path])
	}
	s.awaitReady("selector", r2)
	eventually(t, within, "the Deployment with the other selector is a new one", func(ctx context.Context) error {
		d, err := s.getDeployment(ctx, "selector")
		if err == nil && (string(d.UID) == uids["selector"] || d.Spec.Selector.MatchLabels["tier"] != "front") {
			err = errors.New("it is the old one")
		}
		return err
	})
}
