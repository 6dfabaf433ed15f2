package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestNamespaceWithOwnedContents: a Namespace was deleted with a running pod in it, since the pod had an owner somewhere
// else. It stays until the pod is gone.
func TestNamespaceWithOwnedContents(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	n := uniqueName("contents")
	keep := replaceOnce(configMap("c", "1"), "{name: c", "{namespace: "+s.namespace+", name: c")
	r1 := s.push(map[string]string{"c.yaml": keep, "ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + n + "}\n"})
	s.follow()
	s.deploy("app", unwaited, func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" })
	s.awaitReady("app", r1)
	owner := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: n}}
	create(t, owner)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: n, Name: "agent", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: n, UID: owner.UID}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: goodImage}}},
	}
	create(t, pod)
	r2 := s.push(map[string]string{"c.yaml": keep})
	s.awaitReady("app", r2)
	s.awaitRetained("app", "_"+n+"__Namespace", v1.RetainedProtected)
	s.stays(pod)
	if err := kube.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}})
}
