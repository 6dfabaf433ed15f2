package target

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	fluxclient "github.com/fluxcd/pkg/runtime/client"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// P161: the named key, else "value", else "value.yaml".
func TestKeysOfKubeConfigs(t *testing.T) {
	for what, c := range map[string]struct {
		key, data string
		want      string
	}{
		"the named key":                      {key: "b", data: "a b value", want: "b"},
		"the named key is missing":           {key: "b", data: "a value", want: `has no key "b"`},
		"no key is named":                    {data: "a value value.yaml", want: "value"},
		"no key is named, the other form":    {data: "a value.yaml", want: "value.yaml"},
		"no key is named, and none is there": {data: "a", want: `has no key "value"`},
		"there is no Secret":                 {want: "read the kubeconfig in Secret/shop/remote: "},
	} {
		t.Run(what, func(t *testing.T) {
			secrets := interceptor.NewClient(nil, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
				if c.data == "" || key != (client.ObjectKey{Namespace: "shop", Name: "remote"}) {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
				}
				secret := obj.(*corev1.Secret)
				secret.Data = map[string][]byte{}
				for _, k := range strings.Fields(c.data) {
					secret.Data[k] = []byte(k)
				}
				return nil
			}})
			ks := &v1.Kustomization{}
			ks.Namespace = "shop"
			ks.Spec.KubeConfig = &meta.KubeConfigReference{SecretRef: &meta.SecretKeyReference{Name: "remote", Key: c.key}}
			got, err := readKubeConfig(t.Context(), secrets, ks)
			said := string(got)
			if err != nil {
				said = err.Error()
			}
			if said != c.want && (err == nil || !strings.Contains(said, c.want)) {
				t.Errorf("%s", said)
			}
		})
	}
}

// kubeConfig has everything that a kubeconfig may do to whoever uses it.
const kubeConfig = `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true, certificate-authority: CA}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
users:
- name: u
  user:
    TOKEN
    client-certificate: CERT
    client-key: KEY
    as: system:admin
    exec: {apiVersion: client.authentication.k8s.io/v1, command: COMMAND, interactiveMode: Never}
`

// P162: whoever writes a kubeconfig can't make the controller run a program, nor send a file of its own, such as the token of its
// account, to a server of their choice.
func TestKubeConfigsAreSanitised(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("token-of-the-controller"), 0o600); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("CA}", secret+"}", "TOKEN", "tokenFile: "+secret, "CERT", secret, "KEY", secret, "COMMAND", "/bin/false")
	for _, insecure := range []bool{false, true} {
		o := fluxclient.KubeConfigOptions{InsecureExecProvider: insecure, InsecureTLS: insecure}
		parsed, err := parseKubeConfig([]byte(fill.Replace(kubeConfig)), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got := fluxclient.KubeConfig(ctx, parsed, o)
		if got.BearerToken != "" || got.BearerTokenFile != "" || got.CAFile != "" || got.CertFile != "" || got.KeyFile != "" ||
			len(got.CertData)+len(got.KeyData)+len(got.CAData) > 0 || got.Impersonate.UserName != "" || got.AuthProvider != nil {
			t.Errorf("it may use %+v", got)
		}
		if (got.ExecProvider != nil) != insecure || got.Insecure != insecure {
			t.Errorf("insecure %t: exec %v, TLS %t", insecure, got.ExecProvider, got.Insecure)
		}
		if got.Timeout != 30*time.Second {
			t.Errorf("requests time out after %s", got.Timeout)
		}
	}
}

// What is wrong with a kubeconfig is told without what is in it.
func TestBrokenKubeConfigs(t *testing.T) {
	for what, content := range map[string]string{
		"no YAML": "hunter2: [", "a text": "hunter2", "a number for a list": "apiVersion: v1\nkind: Config\nusers: hunter2\n",
		"empty": "", "no server": "apiVersion: v1\nkind: Config\nusers: [{name: u, user: {token: hunter2}}]\n",
	} {
		if _, err := parseKubeConfig([]byte(content), fluxclient.KubeConfigOptions{}); err == nil {
			t.Errorf("%s is accepted", what)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
