package decrypt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// IsExempt tells whether the annotation of an object asks to leave it encrypted.
func IsExempt(u *unstructured.Unstructured) bool {
	return strings.EqualFold(u.GetAnnotations()[v1.ControlPrefix+"decrypt"], "disabled")
}

// IsWhole tells whether an object is encrypted as a whole, which leaves SOPS' metadata at its top.
func IsWhole(u *unstructured.Unstructured) bool {
	mac, found, err := unstructured.NestedString(u.Object, "sops", "mac")
	return err == nil && found && mac != ""
}

// Object decrypts an object in place: as a whole, or, in a Secret, those values that are SOPS files.
func (d *Decrypter) Object(u *unstructured.Unstructured) error {
	switch {
	case IsExempt(u):
		return nil
	case IsWhole(u):
		return d.whole(u)
	case u.GetKind() == "Secret":
		return d.values(u)
	}
	return nil
}

func (d *Decrypter) whole(u *unstructured.Unstructured) error {
	data, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	plain, err := d.open(data, formatJSON, formatJSON)
	if err != nil {
		return fmt.Errorf("failed to decrypt and format '%s/%s' %s data: %w", u.GetNamespace(), u.GetName(), u.GetKind(), err)
	}
	var content map[string]any
	if err := utiljson.Unmarshal(plain, &content); err != nil {
		return fmt.Errorf("failed to unmarshal decrypted '%s/%s' %s to JSON", u.GetNamespace(), u.GetName(), u.GetKind())
	}
	u.Object = content
	return nil
}

// values decrypts the data of a Secret. What is no base64 is left for the API server to refuse.
func (d *Decrypter) values(u *unstructured.Unstructured) error {
	content, ok := u.Object["data"].(map[string]any)
	if !ok {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(content)) {
		text, _ := content[key].(string)
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		in := detect(data)
		if in == nil {
			continue
		}
		plain, err := d.open(data, in, formatOf(key))
		if err != nil {
			return fmt.Errorf("failed to decrypt and format '%s/%s' Secret field '%s': %w", u.GetNamespace(), u.GetName(), key, err)
		}
		content[key] = base64.StdEncoding.EncodeToString(plain)
	}
	return nil
}

// detect returns the format of an encrypted file, nil if the data is none.
func detect(data []byte) *format {
	for _, f := range detectable {
		if f.marker.Match(data) {
			return f
		}
	}
	return nil
}
