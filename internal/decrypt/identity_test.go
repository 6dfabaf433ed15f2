package decrypt

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsops/sops/v3/keyservice"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// issuer is one whose accounts all exist, and whose tokens say whom they are of and for.
func issuer(annotations map[string]string) *identity.Issuer {
	return identity.New(identity.Options{ObjectLevel: true, Client: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			account := obj.(*corev1.ServiceAccount)
			account.Namespace, account.Name, account.Annotations = key.Namespace, key.Name, annotations
			return nil
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, obj, sub client.Object, _ ...client.SubResourceCreateOption) error {
			request := sub.(*authenticationv1.TokenRequest)
			claims, err := json.Marshal(map[string]any{"sub": "system:serviceaccount:" + obj.GetNamespace() + ":" + obj.GetName(),
				"aud": request.Spec.Audiences, "exp": time.Now().Add(time.Hour).Unix()})
			encode := base64.RawURLEncoding.EncodeToString
			request.Status.Token = encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + "."
			return err
		},
	})})
}

// vault is a server that accounts log in to. It notes each request with the token that it came with.
type vault struct {
	*httptest.Server
	requests []string
	jwt      string
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.requests = append(v.requests, r.URL.Path+" "+r.Header.Get("X-Vault-Token"))
		var body map[string]string
		_ = json.NewDecoder(r.Body).Decode(&body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/login") && body["role"] == "shop_keys":
			v.jwt = body["jwt"]
			_ = json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{"client_token": "of the login"}})
		case r.URL.Path == "/v1/transit/decrypt/app":
			_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"plaintext": "ZGF0YSBrZXk="}})
		default:
			http.Error(w, `{"errors":["permission denied"]}`, http.StatusForbidden)
		}
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *vault) request() *keyservice.DecryptRequest {
	return &keyservice.DecryptRequest{Ciphertext: []byte("vault:v1:x"), Key: &keyservice.Key{KeyType: &keyservice.Key_VaultKey{
		VaultKey: &keyservice.VaultKey{VaultAddress: v.URL, EnginePath: "transit", KeyName: "app"}}}}
}

func (v *vault) list(more ...string) string {
	return "instances:\n- address: " + v.URL + "\n  loginPath: ns1/auth/kubernetes/login\n" + strings.Join(more, "")
}

var vaults = types.NamespacedName{Namespace: "flux-system", Name: "vaults"}

func loginOf(account, config string) *Identity {
	i := &Identity{Issuer: issuer(nil), Vaults: NewVaults(vaults, func(context.Context) (map[string]string, error) {
		return map[string]string{vaultsKey: config}, nil
	})}
	i.Asker.Account = types.NamespacedName{Namespace: "shop", Name: account}
	return i
}

// P69: an account logs in once at each server, at the path of the ConfigMap, with the role of its names and a token for that server.
// P68: that goes before the token of the process, which is shown to no server, and after the token of the Secret.
func TestVaultLogin(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("VAULT_TOKEN", "of the process")
	server := newVault(t)
	keys := &Keys{}
	keys.WithIdentity(loginOf("keys", server.list()))
	for range 2 {
		asked := &service{ctx: t.Context(), keys: keys}
		if got, err := asked.Decrypt(t.Context(), server.request()); err != nil || string(got.GetPlaintext()) != "data key" {
			t.Fatalf("P69: %q, %v, %s", got.GetPlaintext(), err, asked.problem())
		}
	}
	want := []string{"/v1/ns1/auth/kubernetes/login ", "/v1/transit/decrypt/app of the login", "/v1/transit/decrypt/app of the login"}
	if !slices.Equal(server.requests, want) {
		t.Errorf("P69: %q", server.requests)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(server.jwt, ".")[1])
	if err != nil || !strings.Contains(string(payload), `"aud":["`+server.URL+`"]`) || !strings.Contains(string(payload), ":shop:keys") {
		t.Errorf("P69: logged in with %s, %v", payload, err)
	}
	server.requests = nil
	keys = &Keys{vaultToken: "of the Secret"}
	keys.WithIdentity(loginOf("keys", server.list()))
	if _, err := (&service{ctx: t.Context(), keys: keys}).Decrypt(t.Context(), server.request()); err != nil ||
		!slices.Equal(server.requests, []string{"/v1/transit/decrypt/app of the Secret"}) {
		t.Errorf("P68: %q, %v", server.requests, err)
	}
}

// P69: a server that the ConfigMap does not list is shown nothing, and what is wrong is told without a token.
func TestVaultsThatAreNotListed(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("VAULT_TOKEN", "of the process")
	server := newVault(t)
	for want, i := range map[string]*Identity{
		"no Vault login path configured": loginOf("keys", "instances: [{address: https://other.example, loginPath: auth/kubernetes/login}]"),
		"failed to parse":                loginOf("keys", "instances: 1"),
		"is missing the 'config.yaml' key": {Issuer: issuer(nil), Vaults: NewVaults(vaults, func(context.Context) (map[string]string, error) {
			return nil, nil
		})},
		"failed to get Vault ConfigMap 'flux-system/vaults'": {Issuer: issuer(nil), Vaults: NewVaults(vaults, func(context.Context) (map[string]string, error) {
			return nil, errors.New("not found")
		})},
	} {
		keys := &Keys{}
		keys.WithIdentity(i)
		asked := &service{ctx: t.Context(), keys: keys}
		if _, err := asked.Decrypt(t.Context(), server.request()); err == nil || !strings.Contains(asked.problem(), want) {
			t.Errorf("P69 %s: %v, %s", want, err, asked.problem())
		}
		if len(server.requests) > 0 {
			t.Errorf("P69 %s: it was shown %q", want, server.requests)
		}
	}
	keys := &Keys{}
	keys.WithIdentity(loginOf("others", server.list()))
	asked := &service{ctx: t.Context(), keys: keys}
	if _, err := asked.Decrypt(t.Context(), server.request()); err == nil || !strings.Contains(asked.problem(), "role shop_others") ||
		strings.Contains(asked.problem(), "eyJ") || len(server.requests) != 1 {
		t.Errorf("P69 another account: %v, %s, %q", err, asked.problem(), server.requests)
	}
}

// P67: where an account is named, nothing is asked with the identity of the process; static credentials go before it.
func TestNamedAccountsStandForThemselves(t *testing.T) {
	i := loginOf("keys", "")
	keys := &Keys{}
	keys.WithIdentity(i)
	credentials, err := keys.credentialsForAWS(t.Context(), "arn:aws:kms:eu-west-2:123456789012:key/a")
	if err != nil || credentials == nil {
		t.Errorf("AWS: %v, %v", credentials, err)
	}
	// The account has no annotation that says which role it has.
	if got, err := credentials.Retrieve(t.Context()); err == nil || !strings.Contains(err.Error(), "eks.amazonaws.com/role-arn") {
		t.Errorf("AWS: %+v, %v", got, err)
	}
	if _, err := keys.credentialsForAWS(t.Context(), "key/a"); err == nil {
		t.Error("AWS: a key without a region")
	}
	azure, err := keys.credentialForAzure(t.Context())
	if err != nil || azure == nil {
		t.Errorf("Azure: %v, %v", azure, err)
	}
	tokens, err := keys.tokensForGCP(t.Context())
	if err != nil || tokens == nil {
		t.Errorf("Google: %v, %v", tokens, err)
	}
	static, err := parseAWS([]byte("aws_access_key_id: static\naws_secret_access_key: key\n"))
	if err != nil {
		t.Fatal(err)
	}
	keys.aws = static
	if credentials, err := keys.credentialsForAWS(t.Context(), "arn:aws:kms:eu-west-2:123456789012:key/a"); err != nil {
		t.Error(err)
	} else if got, err := credentials.Retrieve(t.Context()); err != nil || got.AccessKeyID != "static" {
		t.Errorf("static: %v, %v", got, err)
	}
	own := &Keys{}
	own.WithIdentity(&Identity{Issuer: issuer(nil)})
	if credentials, err := own.credentialsForAWS(t.Context(), "arn:aws:kms:eu-west-2:123456789012:key/a"); err != nil || credentials != nil {
		t.Errorf("the process: %v, %v", credentials, err)
	}
	refusing := &Keys{}
	refusing.WithIdentity(&Identity{Issuer: identity.New(identity.Options{}), Asker: i.Asker})
	if credentials, err := refusing.credentialsForAWS(t.Context(), "arn:aws:kms:eu-west-2:123456789012:key/a"); !errors.Is(err, identity.ErrGateOff) || credentials != nil {
		t.Errorf("without the gate: %v, %v", credentials, err)
	}
}
