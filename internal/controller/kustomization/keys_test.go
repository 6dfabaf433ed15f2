package kustomization

import (
	"context"
	"errors"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/testkit/sopsfile"
)

// P54, P65: which Secret keys are from, and what happens without it.
func TestDecryptionKeys(t *testing.T) {
	identity, _ := sopsfile.AgeKey(t)
	ref := func(name string) *fluxv1.Decryption {
		return &fluxv1.Decryption{Provider: "sops", SecretRef: &fluxmeta.LocalObjectReference{Name: name}}
	}
	reader := fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: in("flux-system", "keys"), Data: map[string][]byte{"a.agekey": []byte(identity)}},
		&corev1.Secret{ObjectMeta: in("flux-system", "bad"), Data: map[string][]byte{"a.agekey": []byte("hunter2")}},
		&corev1.Secret{ObjectMeta: in("holdfast", "global"), Data: map[string][]byte{"a.agekey": []byte(identity), "sops.aws-kms": []byte("no credentials")}},
	).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if key.Name == "broken" {
			return errors.New("no answer")
		}
		return c.Get(ctx, key, obj, opts...)
	}}).Build()
	for name, tt := range map[string]struct {
		spec   *fluxv1.Decryption
		global string
		none   bool
		err    string
	}{
		"P63 no decryption":                    {none: true, global: "missing"},
		"P53 a Secret":                         {spec: ref("keys")},
		"P54 missing":                          {spec: ref("missing"), err: `secrets "missing" not found`},
		"P54 unreadable":                       {spec: ref("broken"), err: "cannot get sops decryption Secret 'flux-system/broken': no answer"},
		"P54 unusable":                         {spec: ref("bad"), err: "failed to import 'a.agekey' data from sops decryption Secret 'flux-system/bad': "},
		"P65 no Secret":                        {spec: &fluxv1.Decryption{Provider: "sops"}},
		"P65 the Secret for all":               {spec: &fluxv1.Decryption{Provider: "sops"}, global: "global"},
		"P65 the Secret for all is missing":    {spec: &fluxv1.Decryption{Provider: "sops"}, global: "missing", err: `secrets "missing" not found`},
		"P65 a Secret of its own switches off": {spec: ref("keys"), global: "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			p := passOn(newKustomization())
			p.Reader, p.OwnNamespace, p.SOPSAgeSecret = reader, "holdfast", tt.global
			p.ks.Spec.Decryption = tt.spec
			got, err := p.readInputs(t.Context())
			switch {
			case tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err) || strings.Contains(err.Error(), "hunter2")):
				t.Errorf("%v, want %s", err, tt.err)
			case tt.err == "" && (err != nil || (got.keys == nil) != tt.none):
				t.Errorf("keys %v, %v", got.keys, err)
			}
			decrypter, done := got.decrypter(t.Context())
			defer done()
			if tt.err == "" && (decrypter == nil) != tt.none {
				t.Errorf("decrypter %v", decrypter)
			}
		})
	}
}

// Other keys are another build.
func TestKeysAreInputs(t *testing.T) {
	p := passOn(newKustomization())
	p.ks.Spec.Decryption = &fluxv1.Decryption{SecretRef: &fluxmeta.LocalObjectReference{Name: "keys"}}
	secret := &corev1.Secret{ObjectMeta: in("flux-system", "keys")}
	c := fake.NewClientBuilder().WithObjects(secret).Build()
	p.Reader = c
	before, err := p.readInputs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secret = secret.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{"x": []byte("y")}
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	after, err := p.readInputs(t.Context())
	if err != nil || before.key() == after.key() {
		t.Errorf("%q, %q, %v", before.key(), after.key(), err)
	}
}
