package decrypt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/getsops/sops/v3/keyservice"
	"k8s.io/apimachinery/pkg/types"
)

// P56: static credentials of AWS.
func TestAWSCredentials(t *testing.T) {
	provider, err := parseAWS([]byte("aws_access_key_id: id\naws_secret_access_key: key\naws_session_token: token\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := provider.Retrieve(t.Context())
	if err != nil || got.AccessKeyID != "id" || got.SecretAccessKey != "key" || got.SessionToken != "token" {
		t.Errorf("P56: %+v, %v", got, err)
	}
	for name, text := range map[string]string{"P56 no key": "aws_access_key_id: id", "P56 no YAML": "a: b: c"} {
		if _, err := parseAWS([]byte(text)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// P67: without static credentials AWS is asked as the process, by the identity that it has; static ones win; the region is that
// of the key in either case.
func TestAWSIdentity(t *testing.T) {
	var signed []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed = append(signed, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(map[string]any{"Plaintext": "ZGF0YSBrZXk="})
	}))
	defer server.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "process")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret of the process")
	static, err := parseAWS([]byte("aws_access_key_id: static\naws_secret_access_key: key\n"))
	if err != nil {
		t.Fatal(err)
	}
	request := &keyservice.DecryptRequest{Ciphertext: []byte("Y2lwaGVydGV4dA=="), Key: &keyservice.Key{KeyType: &keyservice.Key_KmsKey{
		KmsKey: &keyservice.KmsKey{Arn: "arn:aws:kms:eu-west-2:123456789012:key/00000000-0000-0000-0000-000000000000"}}}}
	for want, keys := range map[string]*Keys{"process": {}, "static": {aws: static}} {
		signed = nil
		asked := &service{ctx: t.Context(), keys: keys}
		got, err := asked.Decrypt(t.Context(), request)
		if err != nil || string(got.GetPlaintext()) != "data key" {
			t.Errorf("P67 %s: %q, %v, %s", want, got.GetPlaintext(), err, asked.problem())
		}
		if len(signed) != 1 || !strings.Contains(signed[0], "Credential="+want+"/") || !strings.Contains(signed[0], "/eu-west-2/kms/") {
			t.Errorf("P67 %s: signed %q", want, signed)
		}
	}
}

func certificate(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// P55: the forms of credentials for Azure.
func TestAzureCredentials(t *testing.T) {
	withCertificate, err := json.Marshal(map[string]any{"tenantId": "t", "clientId": "c", "clientCertificate": certificate(t), "clientCertificateSendChain": true})
	if err != nil {
		t.Fatal(err)
	}
	const withSecret = "tenantId: t\nclientId: c\nclientSecret: s\n"
	for name, text := range map[string]string{
		"P55 secret":                withSecret,
		"P55 secret, JSON":          `{"tenantId": "t", "clientId": "c", "clientSecret": "s"}`,
		"P55 secret, authority":     withSecret + "authorityHost: https://login.example.invalid/\n",
		"P55 output of az":          `{"appId": "a", "displayName": "x", "name": "y", "password": "p", "tenant": "t"}`,
		"P55 UTF-16, little endian": encodeUTF16(withSecret, 0, 1),
		"P55 UTF-16, big endian":    encodeUTF16(withSecret, 1, 0),
		"P55 UTF-8 with a mark":     "\xef\xbb\xbf" + withSecret,
	} {
		t.Run(name, func(t *testing.T) {
			credential, err := parseAzure([]byte(text))
			if _, ok := credential.(*azidentity.ClientSecretCredential); !ok || err != nil {
				t.Errorf("%T, %v", credential, err)
			}
		})
	}
	if credential, err := parseAzure(withCertificate); err != nil {
		t.Errorf("P55 certificate: %v", err)
	} else if _, ok := credential.(*azidentity.ClientCertificateCredential); !ok {
		t.Errorf("P55 certificate: %T", credential)
	}
	if credential, err := parseAzure([]byte("clientId: c")); err != nil {
		t.Errorf("P55 managed identity: %v", err)
	} else if _, ok := credential.(*azidentity.ManagedIdentityCredential); !ok {
		t.Errorf("P55 managed identity: %T", credential)
	}
	for name, text := range map[string]string{
		"P55 incomplete": "tenantId: hunter2", "P55 no certificate": "tenantId: t\nclientId: c\nclientCertificate: hunter2", "P55 no YAML": "hunter2: x: y",
		"P55 half of a character": "\xff\xfeh", "P55 no https": withSecret + "authorityHost: http://hunter2/\n",
	} {
		if _, err := parseAzure([]byte(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// encodeUTF16 encodes with a mark; low and high are the places of the bytes of a unit.
func encodeUTF16(text string, low, high int) string {
	out := []byte{}
	for _, unit := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
		var pair [2]byte
		pair[low], pair[high] = byte(unit), byte(unit>>8)
		out = append(out, pair[:]...)
	}
	return string(out)
}

// P56: credentials of Google, but for kinds that use what only the controller has.
func TestGCPCredentials(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@example.invalid", "token_uri": "https://example.invalid/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"P56 account": string(account) + "\n", "P56 user": `{"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}`,
	} {
		if source, err := parseGCP(t.Context(), []byte(text)); err != nil || source == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"P56 external": `{"type": "external_account", "credential_source": {"file": "/var/run/secrets/token"}}`, "P56 none": `{}`, "P56 no JSON": "hunter2",
		"P56 impersonated": `{"type": "impersonated_service_account"}`,
	} {
		if _, err := parseGCP(t.Context(), []byte(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// P68: the token of the Secret goes before that of the process, and there is no third.
func TestVault(t *testing.T) {
	var tokens []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("X-Vault-Token"))
		if r.URL.Path != "/v1/transit/decrypt/app" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"plaintext": "ZGF0YSBrZXk="}})
	}))
	defer server.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("VAULT_TOKEN", "")
	request := &keyservice.DecryptRequest{Ciphertext: []byte("vault:v1:x"), Key: &keyservice.Key{KeyType: &keyservice.Key_VaultKey{
		VaultKey: &keyservice.VaultKey{VaultAddress: server.URL, EnginePath: "transit", KeyName: "app"}}}}
	none := &service{ctx: t.Context(), keys: &Keys{}}
	if _, err := none.Decrypt(t.Context(), request); err == nil || !strings.Contains(none.problem(), "Vault "+server.URL+": no token is given") {
		t.Errorf("P68 no token: %v, %s", err, none.problem())
	}
	t.Setenv("VAULT_TOKEN", "of the process")
	for want, keys := range map[string]*Keys{"of the process": {}, "of the Secret": {vaultToken: "of the Secret"}} {
		tokens = nil
		got, err := (&service{ctx: t.Context(), keys: keys}).Decrypt(t.Context(), request)
		if err != nil || string(got.GetPlaintext()) != "data key" || len(tokens) != 1 || tokens[0] != want {
			t.Errorf("P68: %q with %q, %v, want the token %q", got.GetPlaintext(), tokens, err, want)
		}
	}
	keys, err := ParseKeys(t.Context(), types.NamespacedName{}, map[string][]byte{vaultTokenKey: []byte(" token\n")})
	if err != nil || keys.vaultToken != "token" {
		t.Errorf("P53: %q, %v", keys.vaultToken, err)
	}
}
