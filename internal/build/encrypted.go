package build

import (
	"encoding/base64"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/decrypt"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// EncryptedError says that an object is still encrypted and must not be applied.
type EncryptedError struct {
	// ID of the object.
	ID object.ID
}

// Error has Flux's text.
func (e *EncryptedError) Error() string {
	return fmt.Sprintf("%s is SOPS encrypted, configuring decryption is required for this secret to be reconciled", e.ID)
}

// encryptedValue begins every value that SOPS encrypted.
const encryptedValue = "ENC[AES256_GCM,"

// IsEncrypted tells whether an object is SOPS ciphertext: as a whole, which leaves SOPS' metadata at its top, or, in a
// Secret, in one of its values, which is what a generator makes of an encrypted file.
func IsEncrypted(u *unstructured.Unstructured) bool {
	if decrypt.IsWhole(u) {
		return true
	}
	if u.GetKind() != "Secret" || u.GetAPIVersion() != "v1" {
		return false
	}
	return anyEncrypted(u.Object["data"], true) || anyEncrypted(u.Object["stringData"], false)
}

func anyEncrypted(values any, encoded bool) bool {
	m, _ := values.(map[string]any)
	for _, v := range m {
		text, ok := v.(string)
		if !ok {
			continue
		}
		if encoded {
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				// Not a value that the API server takes; it may be ciphertext put there as it is.
				raw = []byte(text)
			}
			text = string(raw)
		}
		if strings.HasPrefix(text, encryptedValue) || strings.Contains(text, encryptedValue) && strings.Contains(text, "sops") {
			return true
		}
	}
	return false
}

// CheckDecrypted returns an *EncryptedError for the first object that is still encrypted. Objects annotated with
// decrypt: disabled are let through, as in Flux.
func CheckDecrypted(objects []*unstructured.Unstructured) error {
	for _, u := range objects {
		if !decrypt.IsExempt(u) && IsEncrypted(u) {
			return &EncryptedError{ID: object.IDOf(u)}
		}
	}
	return nil
}
