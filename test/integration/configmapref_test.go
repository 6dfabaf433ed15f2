package integration

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// described makes a Kustomization work on the cluster that a ConfigMap describes.
func described(name string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.KubeConfig = &meta.KubeConfigReference{ConfigMapRef: &meta.LocalObjectReference{Name: name}}
	}
}

// secondAddress is another address of the API server of the tests.
func secondAddress(t *testing.T) string {
	t.Helper()
	scheme, host, _ := strings.Cut(env.Config.Host, "://")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer near.Close()
				far, err := net.Dial("tcp", host)
				if err != nil {
					return
				}
				defer far.Close()
				go func() { _, _ = io.Copy(far, near) }()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
	return scheme + "://" + listener.Addr().String()
}

// description is a ConfigMap that leads to a second address of the cluster with the identity of an account.
func (s *scenario) description(name, account string) *corev1.ConfigMap {
	s.t.Helper()
	authority := env.Config.CAData
	if len(authority) == 0 {
		var err error
		if authority, err = os.ReadFile(env.Config.CAFile); err != nil {
			s.t.Fatal(err)
		}
	}
	// The audiences that the API server takes are those of a token that names none.
	token := &authenticationv1.TokenRequest{}
	if err := kube.SubResource("token").Create(s.t.Context(), s.account("default"), token); err != nil {
		s.t.Fatal(err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"reconcile.fluxcd.io/watch": "Enabled"}},
		Data: map[string]string{"provider": "generic", "address": secondAddress(s.t), "ca.crt": string(authority),
			"audiences": strings.Join(token.Spec.Audiences, "\n"), "serviceAccountName": account}}
}

func byIdentities(o *app.Options) { o.Kustomization.ObjectLevelIdentity = true }

// TestKubeConfigByIdentity, P163, P147 and P156: objects go where the ConfigMap says with the rights of the account that it names, from
// the apply to the deletion; without the ConfigMap or the account nothing moves, and nothing is done with other rights instead.
func TestKubeConfigByIdentity(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	s.run(byIdentities)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("app", described("remote"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "failed to build kube client: ", "ConfigMap/"+s.namespace+"/remote")
	config := s.description("remote", "far")
	create(t, config)
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "failed to build kube client: ", "'"+s.namespace+"/far'")
	if err := s.gone(t.Context(), "a", "b"); err != nil {
		t.Error(err)
	}
	far := s.account("far")
	create(t, far)
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("far")+" cannot")
	s.admin("far")
	s.awaitReady("app", r1)
	r2 := s.push(map[string]string{"b.yaml": configMap("b", "1")})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm("a"))

	if err := kube.Delete(t.Context(), far); err != nil {
		t.Fatal(err)
	}
	ks := s.mustGet("app")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "deletion waits", "'"+s.namespace+"/far'")
	s.stays(s.cm("b"))
	create(t, s.account("far"))
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("b"))
}

// TestIdentitiesNeedTheirGate, P163, P165, P234: without the gate the account of a ConfigMap is not used, and neither is the controller
// in its place. P164: with it, the account of the spec is impersonated on the cluster.
func TestIdentitiesNeedTheirGate(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.admin("far")
	create(t, s.description("remote", "far"))
	s.deploy("app", described("remote"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "failed to build kube client: ", "ObjectLevelWorkloadIdentity")
	if err := s.gone(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// TestKubeConfigByIdentityAndAccount, P164 and P192: the account of the spec is impersonated where the identity leads to, and the
// account of the flag gets access where the ConfigMap names none.
func TestKubeConfigByIdentityAndAccount(t *testing.T) {
	t.Parallel()
	s := newStory(t, byIdentities, func(o *app.Options) { o.Kustomization.DefaultKubeConfigAccount = "far" })
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.admin("far")
	config := s.description("remote", "")
	delete(config.Data, "serviceAccountName")
	create(t, s.account("tenant"), config)
	s.deploy("app", described("remote"), as("tenant"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("tenant")+" cannot get")
	s.grant("tenant", s.namespace, "*")
	s.awaitReady("app", r1)
}
