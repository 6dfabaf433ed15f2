package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/install"
)

// The account that `holdfast install` makes has the rights that the controllers need, for the whole way from a push to a
// safe prune, with leader election and events.
func TestInstalledAccountSuffices(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	home := uniqueName("account")
	exported, err := install.Objects(install.Options{Namespace: home, Image: "holdfast:missing"})
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, o := range exported {
		// The CRDs are there, and the controller is run by the test.
		if kind := o.GetKind(); kind != "CustomResourceDefinition" && kind != "Deployment" {
			objects = append(objects, o)
		}
	}
	t.Cleanup(func() { uninstall(t, objects) })
	if err := install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	startProcess(t, s.namespace, tokenKubeconfig(t, home, "holdfast"), "--enable-leader-election")
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web")
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	r2 := s.push(webApp("2", goodImage))
	s.awaitReady("web", r2)
	eventuallyGone(t, within, &first)
	s.awaitEvent("web", "Normal", "ReconciliationSucceeded", "Reconciliation finished in ")
	ks := s.mustGet("web")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	eventually(t, within, "the Deployment is gone", func(ctx context.Context) error { return isGone(ctx, s.deploymentOf("web")) })
}

// tokenKubeconfig writes a kubeconfig with a token of a ServiceAccount.
func tokenKubeconfig(t *testing.T, namespace, account string) string {
	t.Helper()
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := kube.SubResource("token").Create(t.Context(), sa, token, &client.SubResourceCreateOptions{}); err != nil {
		t.Fatalf("ask for a token of the ServiceAccount: %v", err)
	}
	config := clientcmdapi.NewConfig()
	cluster := clientcmdapi.NewCluster()
	cluster.Server, cluster.CertificateAuthority = env.Config.Host, env.Config.CAFile
	cluster.CertificateAuthorityData = env.Config.CAData
	cluster.InsecureSkipTLSVerify = env.Config.Insecure
	user := clientcmdapi.NewAuthInfo()
	user.Token = token.Status.Token
	config.Clusters["test"], config.AuthInfos["test"] = cluster, user
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}
