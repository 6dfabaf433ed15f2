package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	kustomizeapi "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// objectsOf converts the result of kustomize, in its order. Lists are replaced by their items, and what is there for
// kustomize only is dropped.
func objectsOf(rendered resmap.ResMap) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, r := range rendered.Resources() {
		data, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", r.CurId(), err)
		}
		u, err := decodeJSON(data)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", r.CurId(), err)
		}
		items, err := flatten(u)
		if err != nil {
			return nil, fmt.Errorf("read items of %s: %w", r.CurId(), err)
		}
		objects = append(objects, items...)
	}
	return objects, nil
}

// decode reads one YAML document.
func decode(text []byte) (*unstructured.Unstructured, error) {
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	return decodeJSON(data)
}

// decodeJSON reads an object such that its numbers are those of the Kubernetes API: int64 or float64.
func decodeJSON(data []byte) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return nil, err
	}
	return u, nil
}

// flatten replaces a List by its items, and drops kustomize's own configuration.
func flatten(u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if isConfig(u) {
		return nil, nil
	}
	if !isList(u) {
		return []*unstructured.Unstructured{u}, nil
	}
	var objects []*unstructured.Unstructured
	err := u.EachListItem(func(item runtime.Object) error {
		child, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("item is a %T", item)
		}
		items, err := flatten(child)
		objects = append(objects, items...)
		return err
	})
	return objects, err
}

// isList tells whether an object stands for others. A custom resource may have a field "items" of its own; only kinds of lists
// have the name of one.
func isList(u *unstructured.Unstructured) bool {
	return strings.HasSuffix(u.GetKind(), "List") && u.IsList()
}

// isConfig tells kustomize's own kinds, which no API server knows.
func isConfig(u *unstructured.Unstructured) bool {
	return strings.HasPrefix(u.GetAPIVersion(), "kustomize.config.k8s.io/")
}

// setCommonMetadata puts the spec's labels and annotations on every object, over those of the manifests.
func setCommonMetadata(objects []*unstructured.Unstructured, common *kustomizeapi.CommonMetadata) {
	if common == nil {
		return
	}
	for _, u := range objects {
		if merged := merge(u.GetLabels(), common.Labels); len(merged) > 0 {
			u.SetLabels(merged)
		}
		if merged := merge(u.GetAnnotations(), common.Annotations); len(merged) > 0 {
			u.SetAnnotations(merged)
		}
	}
}

func merge(base, over map[string]string) map[string]string {
	merged := maps.Clone(base)
	if merged == nil {
		merged = make(map[string]string, len(over))
	}
	maps.Copy(merged, over)
	return merged
}

// check refuses what the API server could not take as it is, before anything is written: objects without an identity,
// two objects of one identity, and lists with repeated keys.
func check(objects []*unstructured.Unstructured) error {
	seen := make(map[object.ID]*unstructured.Unstructured, len(objects))
	for _, u := range objects {
		id := object.IDOf(u)
		switch {
		case u.GetAPIVersion() == "" || u.GetKind() == "" || id.Name == "" && u.GetGenerateName() == "":
			return &ObjectError{ID: id, Problem: undecodable}
		case id.Name == "":
			return &ObjectError{ID: id, Field: "metadata.generateName", Problem: generatedName}
		}
		if other := seen[id]; other != nil {
			return &DuplicateError{ID: id, First: other.GetAPIVersion(), Second: u.GetAPIVersion()}
		}
		seen[id] = u
		if err := uniqueKeys(u); err != nil {
			return err
		}
	}
	return nil
}

// Problems of objects. The first has Flux's text, and what is known of the object after it.
const (
	undecodable   = "failed to decode Kubernetes apiVersion, kind and name from: "
	generatedName = "a generated name can't be applied, since every apply would create another object; set metadata.name"
)

// Digest is a digest over objects and their order, as sha256:<hex>. Two builds of the same digest want the same.
func Digest(objects []*unstructured.Unstructured) (string, error) {
	hash := sha256.New()
	for _, u := range objects {
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			return "", fmt.Errorf("encode %s: %w", object.IDOf(u), err)
		}
		hash.Write([]byte("---\n"))
		hash.Write(text)
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}
