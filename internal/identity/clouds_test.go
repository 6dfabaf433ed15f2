package identity

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-gitops/holdfast/internal/testkit/clouds"
)

// cloud answers as the clouds, to all tests of the package: clients read the proxy of the environment once.
var cloud *clouds.Clouds

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "clouds-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if cloud, err = clouds.Start(dir); err != nil {
		return 0, err
	}
	defer cloud.Close()
	for _, variable := range cloud.Env() {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	if err := cloud.ServeGit("http://127.0.0.1:1"); err != nil {
		return 0, err
	}
	if err := cloud.ServeCluster(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

const (
	tenant   = "11111111-1111-1111-1111-111111111111"
	customer = "22222222-2222-2222-2222-222222222222"
	role     = "arn:aws:iam::123456789012:role/far"
	pool     = "projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
	email    = "far@project.iam.gserviceaccount.com"
)

// inClouds are the annotations of an account that each cloud knows.
var inClouds = map[string]string{
	"azure.workload.identity/tenant-id": tenant, "azure.workload.identity/client-id": customer, "eks.amazonaws.com/role-arn": role,
	"gcp.auth.fluxcd.io/workload-identity-provider": pool, "iam.gke.io/gcp-service-account": email,
}

// P163: each cloud exchanges a token of the account for its own credentials, and says where the cluster is.
func TestClustersOfClouds(t *testing.T) {
	for provider, c := range map[string]struct{ resource, identity string }{
		"aws":   {clouds.EKS, role},
		"azure": {clouds.AKS, tenant + "/" + customer},
		"gcp":   {clouds.GKE, email},
	} {
		t.Run(provider, func(t *testing.T) {
			api := &accounts{annotations: inClouds}
			cluster, err := ParseCluster(map[string]string{"provider": provider, "cluster": c.resource, "serviceAccountName": "far"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := New(Options{Client: api.client(), ObjectLevel: true}).Cluster(t.Context(), Asker{Account: far}, cluster)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got.Host, "https://127.0.0.1:") || string(got.CA) != string(cloud.CA()) || got.RenewAfter.IsZero() {
				t.Errorf("%+v", got)
			}
			config := &rest.Config{Host: got.Host, TLSClientConfig: rest.TLSClientConfig{CAData: got.CA}, BearerToken: got.Token}
			if status := statusOf(t, config); status != http.StatusBadGateway { // what is behind does not run
				t.Errorf("the cluster answers %d", status)
			}
			if !slices.ContainsFunc(cloud.Grants(), func(g clouds.Grant) bool {
				return g.Identity == c.identity && g.Subject == "system:serviceaccount:shop:far"
			}) {
				t.Errorf("granted %+v", cloud.Grants())
			}
		})
	}
}

// statusOf asks a server something.
func statusOf(t *testing.T, config *rest.Config) int {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// The names of the servers of AWS have the region in them, which somebody wrote.
func TestRegionsThatAreNone(t *testing.T) {
	api := &accounts{annotations: inClouds}
	issuer := New(Options{Client: api.client(), ObjectLevel: true})
	for _, region := range []string{"evil.example/", "eu-west-2.evil.example", "s3", "", "EU-WEST-2", "eu-west-2 "} {
		cluster := Cluster{Provider: "aws", Resource: "arn:aws:eks:" + region + ":123456789012:cluster/far"}
		for whose, asker := range map[string]Asker{"an account": {Account: far}, "the controller": {}} {
			if _, err := issuer.Cluster(t.Context(), asker, cluster); !errors.Is(err, errRegion) {
				t.Errorf("%s of %s: %v", region, whose, err)
			}
			if _, err := issuer.AWS(t.Context(), asker, region); !errors.Is(err, errRegion) {
				t.Errorf("%s of %s, for keys: %v", region, whose, err)
			}
		}
	}
	if len(api.asked) > 0 {
		t.Errorf("asked for a token for %q", api.asked)
	}
}

func repository(t *testing.T, provider, raw string) Repository {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return Repository{Provider: provider, URL: u}
}

const (
	azureRepository = "https://dev.azure.com/organisation/project/_git/app"
	awsRepository   = "https://git-codecommit.eu-west-2.amazonaws.com/v1/repos/app"
)

// An account gets in by Azure DevOps and AWS CodeCommit, by a proxy as well, and the former ask for it once.
func TestGitOfClouds(t *testing.T) {
	api := &accounts{annotations: inClouds}
	issuer := New(Options{Client: api.client(), ObjectLevel: true})
	for _, raw := range []string{azureRepository, "https://organisation@dev.azure.com/organisation/project/_git/app",
		"https://Organisation.VisualStudio.com/project/_git/app", "https://dev.azure.com:443/organisation/project/_git/app"} {
		login, err := issuer.Git(t.Context(), Asker{Account: far}, repository(t, "azure", raw))
		if err != nil {
			t.Fatal(err)
		}
		if g, known := cloud.Whose(login.BearerToken); !known || login.Username != "" || g.Identity != tenant+"/"+customer || g.Subject != "system:serviceaccount:shop:far" {
			t.Errorf("%s: %+v, %+v", raw, login, g)
		}
	}
	login, err := issuer.Git(t.Context(), Asker{Account: far}, repository(t, "aws", awsRepository))
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(login.Username, "%")
	if g, known := cloud.Whose(id); !known || login.BearerToken != "" || g.Identity != role {
		t.Errorf("%+v, %+v", login, g)
	}
}

// The process's own identity is asked for without a proxy that somebody else chose; that of an account goes by it.
func TestProxyOfTheRepository(t *testing.T) {
	t.Setenv("AZURE_TENANT_ID", tenant)
	t.Setenv("AZURE_CLIENT_ID", customer)
	t.Setenv("AZURE_CLIENT_SECRET", clouds.AzurePassword)
	issuer := New(Options{Client: (&accounts{annotations: inClouds}).client(), ObjectLevel: true})
	r := repository(t, "azure", azureRepository)
	r.Proxy = &url.URL{Scheme: "http", Host: "127.0.0.1:1"} // nobody is there
	login, err := issuer.Git(t.Context(), Asker{}, r)
	if g, known := cloud.Whose(login.BearerToken); err != nil || !known || g.Subject != "" {
		t.Errorf("%+v, %v", g, err)
	}
	if _, err := issuer.Git(t.Context(), Asker{Account: far}, r); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
}

// Credentials of a cloud go to its own Git servers by TLS, and to none that proves itself by what a Secret says while they are the
// controller's own.
func TestGitServersOfOthers(t *testing.T) {
	api := &accounts{annotations: inClouds}
	issuer := New(Options{Client: api.client(), ObjectLevel: true})
	for provider, urls := range map[string][]string{
		"azure": {"https://evil.example/dev.azure.com", "https://dev.azure.com.evil.example/a", "https://evildev.azure.com/a", "https://dev.azure.com@evil.example/a",
			"http://dev.azure.com/a", "ssh://git@ssh.dev.azure.com/a", "https://dev.azure.com:8443/a", "https://evil.example.visualstudio.com/a",
			"https://visualstudio.com/a", "https://dev.azure.com./a", awsRepository},
		"aws": {"https://git-codecommit.eu-west-2.amazonaws.com.evil.example/a", "https://git-codecommit.s3.amazonaws.com/a", "https://git-codecommit.evil.amazonaws.com/a",
			"https://evil.git-codecommit.eu-west-2.amazonaws.com/a", "http://git-codecommit.eu-west-2.amazonaws.com/a",
			"ssh://git-codecommit.eu-west-2.amazonaws.com/a", "https://git-codecommit.eu-west-2.amazonaws.com:8443/a", azureRepository},
	} {
		for _, raw := range urls {
			for whose, asker := range map[string]Asker{"an account": {Account: far}, "the controller": {}} {
				if _, err := issuer.Git(t.Context(), asker, repository(t, provider, raw)); !errors.Is(err, ErrForeignServer) || !strings.Contains(err.Error(), "https://") {
					t.Errorf("%s of %s: %v", raw, whose, err)
				}
			}
		}
	}
	r := repository(t, "azure", azureRepository)
	r.OwnAuthority = true
	if _, err := issuer.Git(t.Context(), Asker{}, r); !errors.Is(err, ErrForeignAuthority) {
		t.Errorf("the controller's own, with an authority of a Secret: %v", err)
	}
	if len(api.asked) > 0 {
		t.Errorf("asked for a token for %q", api.asked)
	}
	if _, err := issuer.Git(t.Context(), Asker{Account: far}, r); err != nil {
		t.Errorf("those of an account are its own affair: %v", err)
	}
	if _, err := issuer.Git(t.Context(), Asker{}, repository(t, "gcp", azureRepository)); err == nil {
		t.Error("Google has no Git servers")
	}
}

// P165: without the gate no account gets in to a Git server.
func TestGateIsOffForGit(t *testing.T) {
	api := &accounts{annotations: inClouds}
	for _, by := range []string{"", SourceFlag} {
		_, err := New(Options{Client: api.client()}).Git(t.Context(), Asker{Account: far, DefaultedBy: by}, repository(t, "azure", azureRepository))
		if !errors.Is(err, ErrGateOff) || len(api.asked) > 0 {
			t.Errorf("%v, %v", err, api.asked)
		}
	}
}
