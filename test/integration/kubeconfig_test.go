package integration

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// on makes a Kustomization work on the cluster of a kubeconfig in a Secret.
func on(secret, key string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.KubeConfig = &meta.KubeConfigReference{SecretRef: &meta.SecretKeyReference{Name: secret, Key: key}}
	}
}

// kubeConfigOf is a kubeconfig of an account of the scenario's namespace, for the cluster of the tests.
func (s *scenario) kubeConfigOf(account string) string {
	s.t.Helper()
	config, err := clientcmd.LoadFromFile(tokenKubeconfig(s.t, s.namespace, account))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		s.t.Fatal(err)
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(content)
}

func (s *scenario) secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, StringData: map[string]string{key: value}}
}

// admin gives an account of the scenario's namespace all rights in it, to what uses its ConfigMaps too.
func (s *scenario) admin(account string) {
	s.t.Helper()
	s.grant(account, s.namespace, "*")
	create(s.t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: uniqueName("admin")},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: account}}})
}

// TestKubeConfig, P161 and P156: objects go where the kubeconfig says, with the rights that it has, from the apply to the
// deletion; without it nothing moves, and nothing is done with other rights instead.
func TestKubeConfig(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	s.run()
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("app", on("remote", ""))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "failed to build kube client: ", "Secret/"+s.namespace+"/remote")
	s.awaitEvent("app", "Warning", "ReconciliationFailed", "failed to build kube client: ")
	if err := s.gone(t.Context(), "a", "b"); err != nil {
		t.Error(err)
	}

	create(t, s.account("far"))
	config := s.secret("remote", "value.yaml", s.kubeConfigOf("far"))
	create(t, config)
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("far")+" cannot")
	s.admin("far")
	s.awaitReady("app", r1)
	r2 := s.push(map[string]string{"b.yaml": configMap("b", "1")})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm("a"))

	if err := kube.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	ks := s.mustGet("app")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "deletion waits", "Secret/"+s.namespace+"/remote")
	s.stays(s.cm("b"))
	create(t, s.secret("remote", "value", s.kubeConfigOf("far")))
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("b"))
}

// TestKubeConfigAndAccount, P164: the account is impersonated where the kubeconfig leads to, which has to allow that.
func TestKubeConfigAndAccount(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.admin("far")
	create(t, s.secret("remote", "value", s.kubeConfigOf("far")), s.account("tenant"))
	s.deploy("app", on("remote", ""), as("tenant"))
	// The admin of a namespace may impersonate its accounts, so that the account lacks the right, and not the kubeconfig.
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("tenant")+" cannot get")
	s.grant("tenant", s.namespace, "*")
	s.awaitReady("app", r1)
}

// A cluster that does not answer fails the Kustomization that works on it, by name, and holds up no others.
func TestKubeConfigOfASilentCluster(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	create(t, s.account("far"))
	host := strings.TrimPrefix(env.Config.Host, "https://")
	create(t, s.secret("remote", "value", strings.ReplaceAll(s.kubeConfigOf("far"), host, silent.Addr().String())))
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	for i := range 8 {
		s.deploy(fmt.Sprint("far", i), on("remote", ""))
	}
	s.deploy("near")
	s.awaitReady("near", r1)
	s.awaitMessage("far0", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "failed to build kube client: ", silent.Addr().String(), "does not answer")
}
