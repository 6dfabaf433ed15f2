package integration

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// awaitUser waits until an object is kept for a user, and checks that the user is named.
func (s *scenario) awaitUser(name, id, user string) {
	s.t.Helper()
	if kept := s.awaitRetained(name, id, v1.RetainedInUse); !slices.Contains(kept.Users, user) {
		s.t.Errorf("%s: the users are %v, want %s", id, kept.Users, user)
	}
}

// The certificate of a live Ingress, and config that a custom resource names with its hash, stay until the user is gone.
func TestUsersThatAreNoWorkloads(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("users") + ".example.com"
	files := func(value string) map[string]string {
		return map[string]string{"crd.yaml": widgetCRD(group), "kustomization.yaml": generated(value, []string{"app"}, "crd.yaml")}
	}
	first := files("1")
	first["tls.yaml"] = "apiVersion: v1\nkind: Secret\nmetadata: {name: tls}\n"
	first["kustomization.yaml"] = generated("1", []string{"app"}, "crd.yaml", "tls.yaml")
	r1 := s.push(first)
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", r1)
	config := s.generatedName("app", "1")
	w := newWidget(group, s.namespace, "w")
	w.Object["spec"] = map[string]any{"configMapName": config}
	backend := &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "i"},
		Spec: networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{SecretName: "tls"}}, DefaultBackend: backend}}
	create(t, w, ingress)
	r2 := s.push(files("2"))
	s.awaitReady("app", r2)
	s.awaitUser("app", s.id("Secret", "tls"), "Ingress/"+s.namespace+"/i")
	s.awaitUser("app", s.cmID(config), "Widget/"+s.namespace+"/w")
	for _, user := range []client.Object{w, ingress} {
		if err := kube.Delete(t.Context(), user); err != nil {
			t.Fatal(err)
		}
	}
	eventuallyGone(t, within, s.cm(config))
	eventuallyGone(t, within, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "tls"}})
}

// An account that a pod runs as keeps its rights and its pull secrets; when the pod is gone all go together.
func TestRightsOfAKeptAccount(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1\n"
	keep := configMap("c", "1")
	r1 := s.push(map[string]string{"c.yaml": keep,
		"sa.yaml":   "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: bot}\nimagePullSecrets: [{name: pull}]\n",
		"pull.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\n",
		"role.yaml": rbac + "kind: Role\nmetadata: {name: bot}\nrules: []\n",
		"rb.yaml": rbac + "kind: RoleBinding\nmetadata: {name: bot}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: bot}\n" +
			"subjects: [{kind: ServiceAccount, name: bot}]\n"})
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", r1)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "user"},
		Spec: corev1.PodSpec{ServiceAccountName: "bot", Containers: []corev1.Container{{Name: "main", Image: goodImage}}}}
	create(t, pod)
	r2 := s.push(map[string]string{"c.yaml": keep})
	s.awaitReady("app", r2)
	const group = "rbac.authorization.k8s.io/"
	account := "ServiceAccount/" + s.namespace + "/bot"
	s.awaitUser("app", s.id("ServiceAccount", "bot"), "Pod/"+s.namespace+"/user")
	s.awaitUser("app", s.id("Secret", "pull"), account)
	s.awaitUser("app", s.id(group+"RoleBinding", "bot"), account)
	s.awaitUser("app", s.id(group+"Role", "bot"), "RoleBinding/"+s.namespace+"/bot")
	if err := kube.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "bot"}
	for _, object := range []client.Object{&corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}} {
		eventuallyGone(t, within, object)
	}
	s.stays(s.cm("c"))
}
