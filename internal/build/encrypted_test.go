package build_test

import (
	"encoding/base64"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

func TestCheckDecrypted(t *testing.T) {
	const value = "ENC[AES256_GCM,data:abc,iv:x,tag:y,type:str]"
	secret := func(field string, content map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "shop"}, field: content}
	}
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	exempt := secret("sops", map[string]any{"mac": value})
	exempt["metadata"].(map[string]any)["annotations"] = map[string]any{"kustomize.toolkit.fluxcd.io/decrypt": "Disabled"}
	tests := map[string]struct {
		object    map[string]any
		encrypted bool
		passes    bool
	}{
		"plain":             {object: secret("data", map[string]any{"a": encode("x")}), passes: true},
		"metadata":          {object: secret("sops", map[string]any{"mac": value}), encrypted: true},
		"metadata, no mac":  {object: secret("sops", map[string]any{"x": "y"}), passes: true},
		"one value":         {object: secret("stringData", map[string]any{"a": "plain", "b": value}), encrypted: true},
		"raw value":         {object: secret("data", map[string]any{"b": value}), encrypted: true},
		"dotenv value":      {object: secret("data", map[string]any{"b": encode(value)}), encrypted: true},
		"document":          {object: secret("data", map[string]any{"f.yaml": encode("a: " + value + "\nsops: {mac: x}")}), encrypted: true},
		"text about it":     {object: secret("data", map[string]any{"f": encode("values look like " + value)}), passes: true},
		"exempt":            {object: exempt, encrypted: true, passes: true},
		"other kind":        {object: map[string]any{"apiVersion": "x/v1", "kind": "Y", "sops": map[string]any{"mac": value}}, encrypted: true},
		"config map value":  {object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": value}}, passes: true},
		"malformed content": {object: map[string]any{"apiVersion": "v1", "kind": "Secret", "sops": 5, "data": []any{1}}, passes: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: tt.object}
			if got := build.IsEncrypted(u); got != tt.encrypted {
				t.Errorf("encrypted %v, want %v", got, tt.encrypted)
			}
			err := build.CheckDecrypted([]*unstructured.Unstructured{u})
			if (err == nil) != tt.passes {
				t.Errorf("error %v, want none: %v", err, tt.passes)
			}
			if err != nil && !as[*build.EncryptedError](err) {
				t.Errorf("error of type %T", err)
			}
		})
	}
	err := &build.EncryptedError{}
	err.ID.Kind, err.ID.Namespace, err.ID.Name = "Secret", "shop", "s"
	const want = "Secret/shop/s is SOPS encrypted, configuring decryption is required for this secret to be reconciled"
	if err.Error() != want {
		t.Errorf("got %s", err)
	}
}
