package target

import (
	"context"
	"errors"
	"fmt"

	fluxclient "github.com/fluxcd/pkg/runtime/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// kubeConfigKeys are where a kubeconfig is looked for when no key is named.
var kubeConfigKeys = []string{"value", "value.yaml"}

// readKubeConfig reads the kubeconfig of a Kustomization, which is in a Secret of its namespace.
func readKubeConfig(ctx context.Context, secrets client.Reader, ks *v1.Kustomization) ([]byte, error) {
	ref := ks.Spec.KubeConfig.SecretRef
	if ref == nil {
		return nil, errors.New("spec.kubeConfig names neither a Secret nor a ConfigMap: set spec.kubeConfig.secretRef or configMapRef")
	}
	secret := &corev1.Secret{}
	if err := secrets.Get(ctx, client.ObjectKey{Namespace: ks.Namespace, Name: ref.Name}, secret); err != nil {
		return nil, fmt.Errorf("read the kubeconfig in Secret/%s/%s: %w", ks.Namespace, ref.Name, err)
	}
	keys := kubeConfigKeys
	if ref.Key != "" {
		keys = []string{ref.Key}
	}
	for _, key := range keys {
		if content, ok := secret.Data[key]; ok {
			return content, nil
		}
	}
	return nil, fmt.Errorf("Secret/%s/%s has no key %q with a kubeconfig", ks.Namespace, ref.Name, keys[0]) //nolint:staticcheck // a kind
}

// parseKubeConfig returns the configuration of a kubeconfig without what could make the controller run a program, read its own
// files, or send what is in them: whoever wrote the Secret need not be trusted with those.
func parseKubeConfig(content []byte, o fluxclient.KubeConfigOptions) (*rest.Config, error) {
	parsed, err := clientcmd.Load(content)
	if err != nil {
		// The text of the parser may quote the content.
		return nil, errors.New("it can't be understood: it has to be a kubeconfig in YAML")
	}
	dropFiles(parsed)
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("it can't be used: %w", err)
	}
	return config, nil
}

// dropFiles takes out of a kubeconfig what names files. The library reads some of them at once, so that it is too late to
// take them out of its result.
func dropFiles(c *clientcmdapi.Config) {
	for _, user := range c.AuthInfos {
		user.TokenFile, user.ClientCertificate, user.ClientKey = "", "", ""
		user.AuthProvider = nil
	}
	for _, cluster := range c.Clusters {
		cluster.CertificateAuthority = ""
	}
}
