package gitrepository

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
)

// honoured are the fields that the controller acts on; every other field of the API must be refused.
var honoured = []string{
	"spec.url", "spec.secretRef", "spec.interval", "spec.timeout", "spec.ignore", "spec.suspend",
	"spec.include", "spec.recurseSubmodules", "spec.sparseCheckout", "spec.verify",
	"spec.proxySecretRef", "spec.provider", "spec.ref.branch", "spec.ref.tag", "spec.ref.semver", "spec.ref.name", "spec.ref.commit",
}

// TestEveryFieldIsHonouredOrRefused walks the API type, so that a field that a new version adds is not ignored.
func TestEveryFieldIsHonouredOrRefused(t *testing.T) {
	check := func(name string, spec sourcev1.GitRepositorySpec) {
		refused := unsupported(spec)
		switch {
		case slices.Contains(honoured, name) && len(refused) > 0:
			t.Errorf("%s is refused as %v", name, refused)
		case !slices.Contains(honoured, name) && !slices.Equal(refused, []string{name}):
			t.Errorf("%s is set and %v refused; honour it or refuse it by name", name, refused)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[sourcev1.GitRepositorySpec]()) {
		if jsonName(f) == "ref" {
			continue
		}
		var spec sourcev1.GitRepositorySpec
		fill(reflect.ValueOf(&spec).Elem().FieldByIndex(f.Index))
		if spec.Provider != "" {
			spec.Provider = sourcev1.GitProviderAzure
		}
		check("spec."+jsonName(f), spec)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[sourcev1.GitRepositoryRef]()) {
		spec := sourcev1.GitRepositorySpec{Reference: &sourcev1.GitRepositoryRef{}}
		fill(reflect.ValueOf(spec.Reference).Elem().FieldByIndex(f.Index))
		check("spec.ref."+jsonName(f), spec)
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// fill sets a field to something that is not its zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		fill(v.Field(0))
	}
}

func TestCheckSpec(t *testing.T) {
	if f := checkSpec(sourcev1.GitRepositorySpec{URL: "https://host/x", Provider: "generic"}); f != nil {
		t.Errorf("refused: %v", f.err)
	}
	f := checkSpec(sourcev1.GitRepositorySpec{
		URL: "ssh://git@host/x", Provider: "gcp", ServiceAccountName: "x",
	})
	if f == nil || !f.final {
		t.Fatalf("failure %+v, want a final one", f)
	}
	for _, name := range []string{"spec.provider", "spec.serviceAccountName"} {
		if !strings.Contains(f.err.Error(), name) {
			t.Errorf("%q does not name %s", f.err, name)
		}
	}
}

func TestCredentials(t *testing.T) {
	bytes := func(pairs ...string) map[string][]byte {
		out := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = []byte(pairs[i+1])
		}
		return out
	}
	tests := map[string]struct {
		data    map[string][]byte
		wantErr string
	}{
		"basic":              {bytes("username", "u", "password", "p"), ""},
		"bearer":             {bytes("bearerToken", "t"), ""},
		"bearer and user":    {bytes("bearerToken", "t", "username", "u"), ""},
		"empty":              {nil, ""},
		"user alone":         {bytes("username", "u"), ""},
		"SSH":                {bytes("identity", "k", "known_hosts", "h"), ""},
		"client certificate": {bytes("tls.crt", "c", "tls.key", "k"), ""},
		"CA that is none":    {bytes("ca.crt", "c", "username", "u", "password", "p"), "ca.crt"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := credentials(tt.data)
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// TestProxy: what may be put into the Secret of spec.proxySecretRef, and that no message quotes it.
func TestProxy(t *testing.T) {
	tests := map[string]struct {
		address, username, password string
		want                        string
		wantErr                     bool
	}{
		"plain":         {"http://proxy:3128", "", "", "http://proxy:3128", false},
		"with both":     {"https://proxy:3128", "user", "s3cr3t", "https://user:s3cr3t@proxy:3128", false},
		"with user":     {"socks5://proxy:1080", "user", "", "socks5://user@proxy:1080", false},
		"nothing":       {"", "", "", "", true},
		"no host":       {"s3cr3t", "", "", "", true},
		"not a URL":     {"http://user:s3cr3t@ho st", "", "", "", true},
		"password only": {"http://proxy:3128", "", "s3cr3t", "", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{"address": []byte(tt.address), "username": []byte(tt.username), "password": []byte(tt.password)}
			got, err := proxy(data)
			if (err != nil) != tt.wantErr || err == nil && got.String() != tt.want {
				t.Fatalf("got %v, %v; want %s", got, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the message holds a secret: %v", err)
			}
		})
	}
}
