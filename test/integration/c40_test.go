package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC40: a dry-run of everything first fails because kind, namespace, role or account does not exist yet, and nothing is
// applied. Here one revision with all of them becomes Ready without ever failing.
func TestC40(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	inner, group := uniqueName("c40"), uniqueName("c40")+".example.com"
	s.watchKustomizations(func(ks *v1.Kustomization) {
		if c := messageIs(ks, "Ready", metav1.ConditionFalse, "ReconciliationFailed"); c == nil {
			t.Errorf("it failed on the way: %v", messages(ks))
		}
	})
	account := fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: runner, namespace: %[1]s}
---
apiVersion: v1
kind: Pod
metadata: {name: run, namespace: %[1]s}
spec:
  serviceAccountName: runner
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %[2]s}]
`, inner, goodImage)
	access := fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: runner, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: runner}
subjects: [{kind: ServiceAccount, name: runner, namespace: %[1]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: runner, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`, inner)
	r1 := s.push(map[string]string{
		"1-account.yaml": account, "2-access.yaml": access,
		"3-widget.yaml": inNamespace(inner, widget(group, "w", "1")),
		"4-ns.yaml":     fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", inner),
		"5-crd.yaml":    widgetCRD(group),
	})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" })
	ks := s.awaitReady("app", r1)
	if n := len(inventoryIDs(ks)); n != 7 {
		t.Errorf("the inventory has %d entries, want 7: %v", n, inventoryIDs(ks))
	}
	if n := ks.Status.History.Latest().TotalReconciliations; n != 1 {
		t.Errorf("%d reconciliations were needed, want 1", n)
	}
	s.stays(newWidget(group, inner, "w"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: inner, Name: "run"}})
	r2 := s.push(map[string]string{"kustomization.yaml": "resources: []\n"})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner}})
}
