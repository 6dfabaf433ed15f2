package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/getsops/sops/v3/azkv"
	"github.com/getsops/sops/v3/gcpkms"
	sopskeys "github.com/getsops/sops/v3/keys"
	"github.com/getsops/sops/v3/kms"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/testkit/clouds"
	"github.com/holdfast-gitops/holdfast/internal/testkit/sopsfile"
)

// Who the account of the tests is in each cloud.
const (
	azureTenant = "11111111-1111-1111-1111-111111111111"
	azureClient = "22222222-2222-2222-2222-222222222222"
	awsRole     = "arn:aws:iam::123456789012:role/far"
	gcpPool     = "projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
	gcpAccount  = "far@project.iam.gserviceaccount.com"
)

// inClouds starts the clouds, which run on this machine, and creates an account that they know.
func (s *scenario) inClouds(account string) *clouds.Clouds {
	s.t.Helper()
	c, err := clouds.Start(s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	known := s.account(account)
	known.Annotations = map[string]string{"azure.workload.identity/tenant-id": azureTenant, "azure.workload.identity/client-id": azureClient,
		"eks.amazonaws.com/role-arn": awsRole, "gcp.auth.fluxcd.io/workload-identity-provider": gcpPool, "iam.gke.io/gcp-service-account": gcpAccount}
	create(s.t, known)
	return c
}

// followAt creates a GitRepository with a provider.
func (s *scenario) followAt(name, provider, url, account string, changes ...func(*sourcev1.GitRepositorySpec)) {
	s.t.Helper()
	o := &sourcev1.GitRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: sourcev1.GitRepositorySpec{
		URL: url, Provider: provider, ServiceAccountName: account, Interval: metav1.Duration{Duration: time.Hour},
		Reference: &sourcev1.GitRepositoryRef{Branch: "main"}}}
	for _, change := range changes {
		change(&o.Spec)
	}
	create(s.t, o)
}

// awaitSource waits for a condition of a GitRepository and returns it.
func (s *scenario) awaitSource(name string, status metav1.ConditionStatus, reason string) *sourcev1.GitRepository {
	s.t.Helper()
	o := &sourcev1.GitRepository{}
	eventually(s.t, within, fmt.Sprintf("GitRepository %s is Ready=%s, %s", name, status, reason), func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, o); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(o.Status.Conditions, "Ready")
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("Ready is %+v", c)
		}
		return nil
	})
	return o
}

// TestGitByIdentity: Azure DevOps and AWS CodeCommit let in an account, and the controller itself, by what their clouds give for a
// token or a key; no Secret is needed, and no credential goes anywhere else or is told.
func TestGitByIdentity(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	c := s.inClouds("puller")
	if err := c.ServeGit(s.git.URL(repoName)); err != nil {
		t.Fatal(err)
	}
	key := c.AWSKey()
	h := startProcessIn(t, append(c.Env(), "AZURE_TENANT_ID="+azureTenant, "AZURE_CLIENT_ID=33333333-3333-3333-3333-333333333333",
		"AZURE_CLIENT_SECRET="+clouds.AzurePassword, "AWS_ACCESS_KEY_ID="+key.Token, "AWS_SECRET_ACCESS_KEY="+key.Secret, "AWS_SESSION_TOKEN="+key.Session,
		"HOME="+t.TempDir()), s.namespace, env.Kubeconfig, "--feature-gates=ObjectLevelWorkloadIdentity=true", "--log-level=trace")
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	const azure, aws = "https://dev.azure.com/organisation/project/_git/app", "https://" + clouds.AWSGit + "/v1/repos/app"
	authority := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "authority"}, Data: map[string][]byte{"ca.crt": c.CA()}}
	create(t, authority)
	s.followAt("azure-account", "azure", azure, "puller")
	s.followAt("azure-own", "azure", azure, "")
	s.followAt("aws-account", "aws", aws, "puller")
	s.followAt("aws-own", "aws", aws, "")
	for _, name := range []string{"azure-account", "azure-own", "aws-account", "aws-own"} {
		if o := s.awaitSource(name, metav1.ConditionTrue, "Succeeded"); o.Status.Artifact.Revision != r1 {
			t.Errorf("%s: artifact %+v", name, o.Status.Artifact)
		}
	}
	s.followAt("elsewhere", "azure", s.git.URL(repoName), "puller")
	s.awaitSource("elsewhere", metav1.ConditionFalse, sourcev1.InvalidProviderConfigurationReason)
	s.followAt("authority", "azure", azure, "", func(spec *sourcev1.GitRepositorySpec) {
		spec.SecretRef = &meta.LocalObjectReference{Name: authority.Name}
	})
	s.awaitSource("authority", metav1.ConditionFalse, sourcev1.InvalidProviderConfigurationReason)
	s.followAt("stranger", "azure", azure, "stranger")
	s.awaitSource("stranger", metav1.ConditionFalse, sourcev1.AuthenticationFailedReason)

	log, err := os.ReadFile(h.log)
	if err != nil {
		t.Fatal(err)
	}
	identities := map[string]string{}
	for _, g := range c.Grants() {
		identities[g.Identity] = g.Subject
		if strings.Contains(string(log), g.Token) && !strings.HasPrefix(g.Token, "A") || g.Secret != "" && strings.Contains(string(log), g.Secret) {
			t.Errorf("the log has a credential of %s", g.Identity)
		}
		for host := range c.Shown(g.Token) {
			if host != clouds.AzureGit && host != clouds.AWSGit {
				t.Errorf("a credential of %s was shown to %s", g.Identity, host)
			}
		}
	}
	of := "system:serviceaccount:" + s.namespace + ":puller"
	if identities[azureTenant+"/"+azureClient] != of || identities[awsRole] != of || identities[azureTenant+"/33333333-3333-3333-3333-333333333333"] != "" || len(identities) != 4 {
		t.Errorf("identities %v", identities)
	}
}

// TestClustersByIdentity, P163: what EKS, AKS and GKE are asked for as an account of their cloud lets in to the cluster, and the objects
// go there.
func TestClustersByIdentity(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	c := s.inClouds("far")
	if err := c.ServeCluster(env.Config); err != nil {
		t.Fatal(err)
	}
	startProcessIn(t, append(c.Env(), "HOME="+t.TempDir()), s.namespace, env.Kubeconfig, "--feature-gates=ObjectLevelWorkloadIdentity=true")
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	for provider, resource := range map[string]string{"aws": clouds.EKS, "azure": clouds.AKS, "gcp": clouds.GKE} {
		create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: provider},
			Data: map[string]string{"provider": provider, "cluster": resource, "serviceAccountName": "far"}})
		s.deploy(provider, described(provider), func(ks *v1.Kustomization) { ks.Spec.NamePrefix = provider + "-" })
	}
	for _, provider := range []string{"aws", "azure", "gcp"} {
		s.awaitReady(provider, r1)
		s.stays(s.cm(provider + "-a"))
	}
	written := map[string]string{}
	for _, request := range c.Asked(clouds.ClusterHost) {
		for _, provider := range []string{"aws", "azure", "gcp"} {
			if request.Method == "PATCH" && strings.HasSuffix(request.Path, "/configmaps/"+provider+"-a") {
				written[provider] = c.Identity(request.Authorization)
			}
		}
	}
	if written["aws"] != awsRole || written["azure"] != azureTenant+"/"+azureClient || written["gcp"] != gcpAccount {
		t.Errorf("written as %v", written)
	}
}

// TestKeysByIdentity, P67: keys of AWS KMS, Azure Key Vault and Google Cloud KMS are opened by what the account of the spec is given, and
// by nobody else's.
func TestKeysByIdentity(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	c := s.inClouds("keys")
	c.ServeKeys()
	startProcessIn(t, append(c.Env(), "HOME="+t.TempDir(), "SOPS_GCP_KMS_CLIENT_TYPE=rest"), s.namespace, env.Kubeconfig,
		"--feature-gates=ObjectLevelWorkloadIdentity=true")
	files := map[string]string{}
	for name, key := range map[string]sopskeys.MasterKey{
		"aws":   kms.NewMasterKey(clouds.AWSKMSKey, "", nil),
		"azure": azkv.NewMasterKey(clouds.AzureVault, clouds.AzureKey, clouds.AzureKeyVer),
		"gcp":   gcpkms.NewMasterKeyFromResourceID(clouds.GCPKMSKey),
	} {
		files[name+".yaml"] = sopsfile.Encrypt(t, sopsfile.Options{Format: "yaml", EncryptedRegex: "^stringData$", Keys: []sopskeys.MasterKey{sopsfile.Cloud(key)}},
			"apiVersion: v1\nkind: Secret\nmetadata: {name: "+name+"}\nstringData: {password: opened by "+name+"}\n")
	}
	r1 := s.push(files)
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) {
		ks.Spec.Decryption = &fluxv1.Decryption{Provider: "sops", ServiceAccountName: "keys"}
	})
	s.awaitReady("app", r1)
	for _, name := range []string{"aws", "azure", "gcp"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || string(secret.Data["password"]) != "opened by "+name {
			t.Errorf("Secret %s has %q, %v", name, secret.Data, err)
		}
	}
	for _, g := range c.Grants() {
		if g.Subject != "system:serviceaccount:"+s.namespace+":keys" {
			t.Errorf("%s was used by %q", g.Identity, g.Subject)
		}
	}
}
