package gitrepository

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-gitops/holdfast/internal/testkit/clouds"
)

// TestCloudsThatAreRefused: what an identity is not used for is told by its reason, and whether only another spec helps. P165: an
// account without the gate is Stalled, as in Flux.
func TestCloudsThatAreRefused(t *testing.T) {
	const azure, aws = "https://dev.azure.com/o/p/_git/app", "https://git-codecommit.eu-west-2.amazonaws.com/v1/repos/app"
	authority, err := clouds.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer authority.Close()
	tests := map[string]struct {
		provider, url, account, flag string
		secret                       map[string]string
		reason, says                 string
		final                        bool
	}{
		"an account without the gate":              {provider: "azure", url: azure, account: "puller", reason: meta.FeatureGateDisabledReason, says: "ServiceAccount/ns/puller", final: true},
		"an account of the flag, without the gate": {provider: "aws", url: aws, flag: "puller", reason: meta.FeatureGateDisabledReason, says: "ServiceAccount/ns/puller", final: true},
		"another server":                           {provider: "azure", url: "https://git.example/app", reason: sourcev1.InvalidProviderConfigurationReason, says: "https://dev.azure.com/", final: true},
		"no TLS":                                   {provider: "aws", url: strings.Replace(aws, "https", "http", 1), reason: sourcev1.InvalidProviderConfigurationReason, says: "git-codecommit.REGION", final: true},
		"a certificate authority":                  {provider: "azure", url: azure, secret: map[string]string{"ca.crt": string(authority.CA())}, reason: sourcev1.InvalidProviderConfigurationReason, says: "take ca.crt out"},
		"a GitHub App":                             {provider: "azure", url: azure, secret: map[string]string{"githubAppID": "7"}, reason: sourcev1.InvalidProviderConfigurationReason, says: "set it to github"},
		"an account for no cloud":                  {provider: "generic", url: azure, account: "puller", reason: "FieldNotSupported", says: "spec.serviceAccountName", final: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.defaultAccount = tt.flag
			if tt.secret != nil {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "app"}, Data: map[string][]byte{}}
				for k, v := range tt.secret {
					secret.Data[k] = []byte(v)
				}
				if err := b.client.Create(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
			}
			b.create(func(o *sourcev1.GitRepository) {
				o.Spec.Provider, o.Spec.URL, o.Spec.ServiceAccountName = tt.provider, tt.url, tt.account
				if tt.secret != nil {
					o.Spec.SecretRef = &meta.LocalObjectReference{Name: "app"}
				}
			})
			_, err := b.reconcile()
			if (err == nil) != tt.final {
				t.Errorf("final is %t, and the reconciliation ended with %v", tt.final, err)
			}
			said := wantCondition(t, b.get(), meta.ReadyCondition, metav1.ConditionFalse, tt.reason)
			if !strings.Contains(said, tt.says) {
				t.Errorf("message %q, want %q", said, tt.says)
			}
			if tt.final {
				wantCondition(t, b.get(), meta.StalledCondition, metav1.ConditionTrue, tt.reason)
			}
		})
	}
}
