package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/cache"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// accounts is an API server with one ServiceAccount, shop/far, which gives tokens that last an hour.
type accounts struct {
	annotations map[string]string
	// asked are the audiences of each token that was asked for.
	asked [][]string
}

func (a *accounts) client() client.Client {
	return interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			account, ok := obj.(*corev1.ServiceAccount)
			if !ok || key != far {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, key.Name)
			}
			account.Namespace, account.Name, account.Annotations = key.Namespace, key.Name, a.annotations
			return nil
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, obj, sub client.Object, _ ...client.SubResourceCreateOption) error {
			request := sub.(*authenticationv1.TokenRequest)
			a.asked = append(a.asked, request.Spec.Audiences)
			request.Status.Token = token(obj.GetName(), len(a.asked), time.Hour, request.Spec.Audiences...)
			return nil
		},
	})
}

// token is a token as an API server makes it, without a signature.
func token(name string, number int, life time.Duration, audiences ...string) string {
	claims, err := json.Marshal(map[string]any{"sub": "system:serviceaccount:shop:" + name, "exp": time.Now().Add(life).Unix(), "jti": number, "aud": audiences})
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + "."
}

var far = types.NamespacedName{Namespace: "shop", Name: "far"}

// P163: a cluster that trusts the issuer of this one is reached with a token of the account, for whom the ConfigMap says, or for
// its address.
func TestGenericCluster(t *testing.T) {
	for what, c := range map[string]struct {
		data      map[string]string
		host      string
		audiences []string
	}{
		"an address":          {map[string]string{"address": "https://far.example:6443"}, "https://far.example:6443", []string{"https://far.example:6443"}},
		"without a scheme":    {map[string]string{"address": "far.example"}, "https://far.example:443", []string{"far.example"}},
		"audiences":           {map[string]string{"address": "https://far.example", "audiences": " a \n\nb\n"}, "https://far.example:443", []string{"a", "b"}},
		"an authority":        {map[string]string{"address": "https://far.example", "ca.crt": "PEM"}, "https://far.example:443", []string{"https://far.example"}},
		"a name of the cloud": {map[string]string{"address": "https://far.example", "cluster": "unused"}, "https://far.example:443", []string{"https://far.example"}},
	} {
		t.Run(what, func(t *testing.T) {
			api := &accounts{}
			c.data["provider"], c.data["serviceAccountName"] = "generic", "far"
			cluster, err := ParseCluster(c.data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := New(Options{Client: api.client(), ObjectLevel: true}).Cluster(t.Context(), Asker{Account: far}, cluster)
			if err != nil {
				t.Fatal(err)
			}
			if cluster.Account != "far" || got.Host != c.host || string(got.CA) != c.data["ca.crt"] || got.Token != token("far", 1, time.Hour, c.audiences...) {
				t.Errorf("%+v", got)
			}
			if len(api.asked) != 1 || !slices.Equal(api.asked[0], c.audiences) {
				t.Errorf("asked for a token for %q, want %q", api.asked, c.audiences)
			}
			if left := time.Until(got.RenewAfter); left < 40*time.Minute || left > 50*time.Minute {
				t.Errorf("it is renewed after %s", left)
			}
		})
	}
}

// pod is the file system of a pod of ServiceAccount/holdfast-system/holdfast.
type pod struct{ read []string }

func (p *pod) ReadFile(name string) ([]byte, error) {
	p.read = append(p.read, name)
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub": "system:serviceaccount:holdfast-system:holdfast"}`))
	return []byte("eyJhbGciOiJub25lIn0." + claims + "."), nil
}

// P163: without an account the controller asks for a token of its own account, which is good for the address that it goes to and for
// nothing else. The token in its pod, which is good for this cluster, goes nowhere. P69: the same for a login at Vault.
func TestControllersOwnToken(t *testing.T) {
	api, files := &accounts{}, &pod{}
	issuer := New(Options{Client: api.client()})
	issuer.mounted = files
	for what, cluster := range map[string]func(context.Context, Asker, Cluster) (Access, error){"first": issuer.Cluster, "anew": issuer.Anew} {
		api.asked = nil
		got, err := cluster(t.Context(), Asker{}, Cluster{Provider: "generic", Address: "https://far.example:6443", CA: "PEM"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Token != token("holdfast", 1, time.Hour, "https://far.example:6443") || got.Host != "https://far.example:6443" || string(got.CA) != "PEM" {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if len(files.read) != 2 || files.read[0] != "/var/run/secrets/kubernetes.io/serviceaccount/token" {
		t.Errorf("read %q", files.read)
	}
	api.asked = nil
	proof, err := issuer.Prove(t.Context(), Asker{}, "https://vault.example")
	if err != nil || proof.Token != token("holdfast", 1, time.Hour, "https://vault.example") {
		t.Errorf("%+v, %v", proof, err)
	}
}

// P165: no account but the controller's own is used without the gate, wherever its name is from.
func TestGateIsOff(t *testing.T) {
	api := &accounts{}
	for _, by := range []string{"", KubeConfigFlag} {
		_, err := New(Options{Client: api.client()}).Cluster(t.Context(), Asker{Account: far, DefaultedBy: by}, Cluster{Provider: "generic", Address: "https://far.example"})
		if !errors.Is(err, ErrGateOff) || !strings.Contains(err.Error(), "ServiceAccount/shop/far") || len(api.asked) > 0 {
			t.Errorf("%v, %v", err, api.asked)
		}
	}
}

// P163: who writes a ConfigMap can't have the controller's own credentials sent to a server of their choice, other than limited to it.
func TestControllersOwnIdentity(t *testing.T) {
	for what, c := range map[string]struct {
		cluster Cluster
		want    error
	}{
		"a token for somebody else":            {Cluster{Provider: "generic", Address: "https://far.example", Audiences: []string{"https://kubernetes.default.svc"}}, errOwnAudiences},
		"credentials of AWS, to an address":    {Cluster{Provider: "aws", Address: "https://far.example", CA: "PEM", Resource: eksName}, errOwnAddress},
		"credentials of Azure, to an address":  {Cluster{Provider: "azure", Address: "https://far.example", CA: "PEM"}, errOwnAddress},
		"credentials of Google, to an address": {Cluster{Provider: "gcp", Address: "https://far.example", CA: "PEM"}, errOwnAddress},
		"no address":                           {Cluster{Provider: "generic"}, errNoAddress},
	} {
		api := &accounts{}
		_, err := New(Options{Client: api.client(), ObjectLevel: true}).Cluster(t.Context(), Asker{}, c.cluster)
		if !errors.Is(err, c.want) || len(api.asked) > 0 {
			t.Errorf("%s: %v, %v", what, err, api.asked)
		}
	}
}

const eksName = "arn:aws:eks:eu-west-2:123456789012:cluster/far"

// P163: what is wrong with a ConfigMap is told by its key.
func TestMalformedClusters(t *testing.T) {
	for want, data := range map[string]map[string]string{
		`"provider" is missing`:   {"address": "https://far.example"},
		`"provider" is "alibaba"`: {"provider": "alibaba"},
		`"address"`:               {"provider": "generic", "address": "https://a\nb"},
		`"cluster"`:               {"provider": "aws", "cluster": eksName + "\naddress=x"},
		`"serviceAccountName"`:    {"provider": "aws", "serviceAccountName": "a\nb"},
		`"audiences"`:             {"provider": "generic", "audiences": "a,b"},
	} {
		if _, err := ParseCluster(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, c := range map[string]Cluster{
		"must use https": {Provider: "generic", Address: "http://far.example"},
	} {
		_, err := New(Options{Client: (&accounts{}).client(), ObjectLevel: true}).Cluster(t.Context(), Asker{Account: far}, c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// P192: an account of the flag that a namespace lacks is told with the flag.
func TestMissingAccounts(t *testing.T) {
	for by, want := range map[string]string{"": "'mall/far'", KubeConfigFlag: "--default-kubeconfig-service-account"} {
		missing := types.NamespacedName{Namespace: "mall", Name: "far"}
		_, err := New(Options{Client: (&accounts{}).client(), ObjectLevel: true}).Cluster(t.Context(), Asker{Account: missing, DefaultedBy: by},
			Cluster{Provider: "generic", Address: "https://far.example"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", by, err)
		}
	}
}

// P178, P218: a token is asked for once and kept, for one account and one cluster, and no more of them than there may be.
func TestTokensAreKept(t *testing.T) {
	api := &accounts{}
	tokens, err := cache.NewTokenCache(3)
	if err != nil {
		t.Fatal(err)
	}
	issuer := New(Options{Client: api.client(), ObjectLevel: true, Tokens: tokens})
	ask := func(address string) string {
		t.Helper()
		got, err := issuer.Cluster(t.Context(), Asker{Account: far}, Cluster{Provider: "generic", Address: address})
		if err != nil {
			t.Fatal(err)
		}
		return got.Token
	}
	first := ask("https://a.example")
	if ask("https://a.example") != first || len(api.asked) != 1 {
		t.Errorf("asked %d times", len(api.asked))
	}
	if ask("https://b.example") == first {
		t.Error("a token for one server was shown to another")
	}
	for i := range 9 {
		ask(fmt.Sprintf("https://%d.example", i))
	}
	before := len(api.asked)
	if ask("https://a.example"); len(api.asked) != before+1 {
		t.Error("more tokens are kept than there may be")
	}
}

// What a service says is one line of bounded length.
func TestLongErrorsAreCut(t *testing.T) {
	err := explain(Asker{}, fmt.Errorf("a\n b %s", strings.Repeat("x", 9999)))
	if text := err.Error(); !strings.HasPrefix(text, "a b x") || len(text) > maxError+3 {
		t.Errorf("%q", text)
	}
}
