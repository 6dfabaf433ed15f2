package decrypt_test

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"github.com/getsops/sops/v3/keys"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/decrypt"
	"github.com/holdfast-gitops/holdfast/internal/testkit/sopsfile"
)

var secretName = types.NamespacedName{Namespace: "flux-system", Name: "keys"}

// decrypter returns one with the entries of a Secret.
func decrypter(t *testing.T, entries map[string]string) *decrypt.Decrypter {
	t.Helper()
	data := map[string][]byte{}
	for name, value := range entries {
		data[name] = []byte(value)
	}
	keys, err := decrypt.ParseKeys(t.Context(), secretName, data)
	if err != nil {
		t.Fatal(err)
	}
	return decrypt.New(t.Context(), keys)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// value returns a decoded value of a Secret's data.
func value(t *testing.T, u *unstructured.Unstructured, key string) string {
	t.Helper()
	text, _, err := unstructured.NestedString(u.Object, "data", key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

const plainSecret = "apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\n    namespace: shop\nstringData:\n    password: hunter2\n"

// P53, P57, P71: every kind of key opens a whole object, and no key ring is left on disk.
func TestKinds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("GNUPGHOME", t.TempDir())
	x25519, x25519Recipient := sopsfile.AgeKey(t)
	hybrid, hybridRecipient := sopsfile.HybridKey(t)
	armored, entity := sopsfile.PGPKey(t)
	other, _ := sopsfile.AgeKey(t)
	for name, tt := range map[string]struct {
		entries map[string]string
		key     keys.MasterKey
	}{
		"P53 age": {map[string]string{"a.agekey": "# created: today\n" + x25519 + "\n", "ignored": "x", "sops.other": "y"}, sopsfile.Age(t, x25519Recipient)},
		"P53 age, several in one entry and in several": {map[string]string{"a.agekey": other + "\n\n" + x25519, "b.agekey": other}, sopsfile.Age(t, x25519Recipient)},
		"P53 age, hybrid": {map[string]string{"a.agekey": hybrid}, sopsfile.Age(t, hybridRecipient)},
		"P53 PGP":         {map[string]string{"pgp.asc": armored, "a.agekey": other}, sopsfile.PGP(entity)},
	} {
		t.Run(name, func(t *testing.T) {
			u := parse(t, sopsfile.Encrypt(t, sopsfile.Options{Format: "yaml", EncryptedRegex: "^(data|stringData)$", Keys: []keys.MasterKey{tt.key}}, plainSecret))
			u.SetLabels(map[string]string{"added": "by the build"}) // P61: which breaks the MAC
			if !decrypt.IsWhole(u) {
				t.Fatalf("not encrypted: %v", u.Object)
			}
			if err := decrypter(t, tt.entries).Object(u); err != nil {
				t.Fatal(err)
			}
			password, _, _ := unstructured.NestedString(u.Object, "stringData", "password")
			if password != "hunter2" || u.Object["sops"] != nil || u.GetLabels()["added"] == "" {
				t.Errorf("%v", u.Object)
			}
		})
	}
	for _, dir := range []string{os.Getenv("TMPDIR"), os.Getenv("GNUPGHOME")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("P71: left in %s: %v, %v", dir, left, err)
		}
	}
}

// P58: single values of a Secret, found by what is in them; the key tells how the plain one is written.
func TestValuesOfSecrets(t *testing.T) {
	identity, recipient := sopsfile.AgeKey(t)
	encrypt := func(format, plain string) string {
		return sopsfile.Encrypt(t, sopsfile.Options{Format: format, Keys: []keys.MasterKey{sopsfile.Age(t, recipient)}}, plain)
	}
	for name, tt := range map[string]struct{ key, encrypted, want string }{
		"P58 YAML":              {"f.yaml", encrypt("yaml", "a: b\n"), "a: b\n"},
		"P58 dotenv":            {"f.env", encrypt("dotenv", "A=b\n"), "A=b\n"},
		"P58 INI":               {"f.ini", encrypt("ini", "[s]\na = b\n"), "[s]\na = b\n"},
		"P58 JSON":              {"f.json", encrypt("json", `{"a":"b"}`), `{"a":"b"}`},
		"P58 .dockerconfigjson": {".dockerconfigjson", encrypt("json", `{"auths":{}, "x": "y"}`), `{"auths":{},"x":"y"}`},
		"P58 binary":            {"token", encrypt("binary", "\x00\xff any"), "\x00\xff any"},
		"P58 plain":             {"token", "just text, mac: none", "just text, mac: none"},
	} {
		t.Run(name, func(t *testing.T) {
			u := parse(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {"+tt.key+": "+base64.StdEncoding.EncodeToString([]byte(tt.encrypted))+", bad: '***'}\n")
			if err := decrypter(t, map[string]string{"a.agekey": identity}).Object(u); err != nil {
				t.Fatal(err)
			}
			if got := value(t, u, tt.key); strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(tt.want), "") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// P62: an annotation leaves an object as it is, in any case.
func TestExempt(t *testing.T) {
	u := parse(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {kustomize.toolkit.fluxcd.io/decrypt: disAbled}}\nsops: {mac: 'ENC[x]'}\n")
	if err := decrypter(t, nil).Object(u); err != nil || u.Object["sops"] == nil {
		t.Errorf("%v, %v", u.Object, err)
	}
}

// P54, P70: entries that can't be used are named, and what is in them is not.
func TestUnusableEntries(t *testing.T) {
	const secret = "hunter2"
	for name, value := range map[string]string{
		"a.agekey": "AGE-SECRET-KEY-1" + secret, "b.agekey": secret, "c.agekey": "AGE-PLUGIN-YUBIKEY-" + secret, "d.agekey": "AGE-SECRET-KEY-PQ-1" + secret,
		"a.asc": secret, "sops.aws-kms": "aws_access_key_id: " + secret, "sops.azure-kv": "tenantId: " + secret, "sops.gcp-kms": `{"type": "` + secret + `"}`,
	} {
		_, err := decrypt.ParseKeys(t.Context(), secretName, map[string][]byte{name: []byte(value)})
		want := "failed to import '" + name + "' data from sops decryption Secret 'flux-system/keys': "
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("P54 %s: %v", name, err)
		}
	}
}

// P65: of the Secret for all, only the age keys count.
func TestAgeKeysOnly(t *testing.T) {
	identity, _ := sopsfile.AgeKey(t)
	if _, err := decrypt.ParseAgeKeys(secretName, map[string][]byte{"a.agekey": []byte(identity), "b.asc": []byte("no key"), "sops.aws-kms": []byte("x")}); err != nil {
		t.Error(err)
	}
	if _, err := decrypt.ParseAgeKeys(secretName, map[string][]byte{"a.agekey": []byte("no key")}); err == nil {
		t.Error("P65: an unusable key is taken")
	}
}

// P70, P72: what fails says which key is missing, and no value.
func TestFailures(t *testing.T) {
	identity, recipient := sopsfile.AgeKey(t)
	other, _ := sopsfile.AgeKey(t)
	_, entity := sopsfile.PGPKey(t)
	options := sopsfile.Options{Format: "yaml", EncryptedRegex: "^stringData$", Keys: []keys.MasterKey{sopsfile.Age(t, recipient)}}
	encrypted := sopsfile.Encrypt(t, options, plainSecret)
	forPGP := sopsfile.Encrypt(t, sopsfile.Options{Format: "yaml", EncryptedRegex: "^stringData$", Keys: []keys.MasterKey{sopsfile.PGP(entity)}}, plainSecret)
	for name, tt := range map[string]struct {
		manifest string
		entries  map[string]string
		want     string
	}{
		"C46 c no key":      {encrypted, nil, "cannot get sops data key: Failed to get the data key required to decrypt the SOPS file: age " + recipient + ": no age identity is given"},
		"P70 another key":   {encrypted, map[string]string{"a.agekey": other}, "none of the identities that are given matches"},
		"P70 no PGP key":    {forPGP, map[string]string{"a.agekey": other}, "no PGP key is given"},
		"C46 d plain value": {encrypted + "", map[string]string{"a.agekey": identity}, "error decrypting sops tree: Input string <redacted> does not match sops' data format"},
		"P70 damaged value": {strings.Replace(encrypted, "ENC[AES256_GCM,data:", "ENC[AES256_GCM,data:AAAA", 1), map[string]string{"a.agekey": identity}, "error decrypting sops tree: a value can't be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			u := parse(t, tt.manifest)
			if name == "C46 d plain value" {
				if err := unstructured.SetNestedField(u.Object, "hunter2", "stringData", "plain"); err != nil {
					t.Fatal(err)
				}
			}
			err := decrypter(t, tt.entries).Object(u)
			if err == nil || !strings.HasPrefix(err.Error(), "failed to decrypt and format 'shop/s' Secret data: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant %s", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "AGE-SECRET-KEY") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("a value, a key or a line break in: %v", err)
			}
		})
	}
}

// P59: files are told by their markers and their names; env files without a known one are dotenv.
func TestSources(t *testing.T) {
	identity, recipient := sopsfile.AgeKey(t)
	encrypt := func(format, plain string) []byte {
		return []byte(sopsfile.Encrypt(t, sopsfile.Options{Format: format, Keys: []keys.MasterKey{sopsfile.Age(t, recipient)}}, plain))
	}
	d := decrypter(t, map[string]string{"a.agekey": identity})
	for name, tt := range map[string]struct {
		file string
		env  bool
		data []byte
		want string
	}{
		"P59 env file":                          {"app.env", true, encrypt("dotenv", "A=b\n"), "A=b\n"},
		"P59 env file of no known name":         {"app.txt", true, encrypt("dotenv", "A=b\n"), "A=b\n"},
		"P59 file":                              {"token", false, encrypt("binary", "x\ny"), "x\ny"},
		"P59 patch":                             {"patch.yaml", false, encrypt("yaml", "a: b\n"), "a: b\n"},
		"P59 plain":                             {"app.env", true, []byte("A=b\n"), ""},
		"P59 another format than the name says": {"token", false, encrypt("yaml", "a: b\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.Source(tt.file, tt.env, tt.data)
			if err != nil || string(got) != tt.want || (got == nil) != (tt.want == "") {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// A value of a Secret whose aliases stand for themselves, or for more than fits into memory, is refused before SOPS follows them.
func TestAliasBombInAValue(t *testing.T) {
	identity, _ := sopsfile.AgeKey(t)
	for _, bomb := range []string{"a: &a [*a]\n", "a: &a [" + strings.Repeat("x,", 800) + "]\nb: &b [" + strings.Repeat("*a,", 800) + "]\n"} {
		u := parse(t, plainSecret)
		value := bomb + "sops:\n  mac: ENC[AES256_GCM,data:AAAA,type:str]\n  version: 3.9.0\n"
		if err := unstructured.SetNestedField(u.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", "v.yaml"); err != nil {
			t.Fatal(err)
		}
		if err := decrypter(t, map[string]string{"a.agekey": identity}).Object(u); err == nil || !strings.Contains(err.Error(), "alias") {
			t.Errorf("%.20s: %v", bomb, err)
		}
	}
}
