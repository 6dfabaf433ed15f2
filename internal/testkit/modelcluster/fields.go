package modelcluster

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// fields is a set of paths to leaves. Lists are leaves: nobody in the model shares one.
type fields map[string]struct{}

// separator joins the parts of a path; no key holds it.
const separator = "\x1f"

// fieldsOf returns the leaves of what a manager applies, without what identifies the object.
func fieldsOf(obj map[string]any) fields {
	set := fields{}
	for key, value := range obj {
		switch key {
		case "apiVersion", "kind", "status":
		case "metadata":
			metadata, _ := value.(map[string]any)
			for _, part := range []string{"labels", "annotations", "finalizers"} {
				if metadata[part] != nil {
					addFields(set, key+separator+part, metadata[part])
				}
			}
		default:
			addFields(set, key, value)
		}
	}
	return set
}

func addFields(set fields, path string, value any) {
	m, ok := value.(map[string]any)
	if !ok || len(m) == 0 {
		set[path] = struct{}{}
		return
	}
	for key, child := range m {
		addFields(set, path+separator+key, child)
	}
}

// lookup returns what is at the end of a path, nil if there is nothing.
func lookup(obj map[string]any, path []string) any {
	var node any = obj
	for _, key := range path {
		m, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = m[key]
	}
	return node
}

func at(obj map[string]any, path string) any { return lookup(obj, strings.Split(path, separator)) }

// setNested sets a value that needs no copy.
func setNested(obj map[string]any, value any, path ...string) {
	for _, key := range path[:len(path)-1] {
		next, ok := obj[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			obj[key] = next
		}
		obj = next
	}
	obj[path[len(path)-1]] = value
}

// removePath removes a leaf and the maps that are empty without it.
func removePath(obj map[string]any, path []string) {
	if len(path) == 1 {
		delete(obj, path[0])
		return
	}
	child, ok := obj[path[0]].(map[string]any)
	if !ok {
		return
	}
	removePath(child, path[1:])
	if len(child) == 0 {
		delete(obj, path[0])
	}
}

// merged is an object after a manager applied a configuration by force: fields that it no longer applies go, unless
// another manager applies them too, and the fields of the configuration are the manager's alone where others wanted other
// values.
func merged(e *entry, config *unstructured.Unstructured, manager string) *entry {
	want := fieldsOf(config.Object)
	after := &entry{obj: e.obj.DeepCopy(), owners: maps.Clone(e.owners)}
	if after.owners == nil {
		after.owners = map[string]fields{}
	}
	for path := range e.owners[manager] {
		if _, still := want[path]; !still && !ownedByOther(e.owners, manager, path) {
			removePath(after.obj.Object, strings.Split(path, separator))
		}
	}
	for path := range want {
		value := at(config.Object, path)
		if !same(at(e.obj.Object, path), value) {
			setNested(after.obj.Object, runtime.DeepCopyJSONValue(value), strings.Split(path, separator)...)
		}
	}
	after.owners = disowned(e, after.obj)
	after.owners[manager] = want
	return after
}

func ownedByOther(owners map[string]fields, manager, path string) bool {
	for other, set := range owners {
		if _, ok := set[path]; ok && other != manager {
			return true
		}
	}
	return false
}

// disowned returns the owners of an object less the fields that are no longer as they applied them.
func disowned(before *entry, after *unstructured.Unstructured) map[string]fields {
	owners := make(map[string]fields, len(before.owners)+1)
	for manager, set := range before.owners {
		var lost []string
		for path := range set {
			if !same(at(before.obj.Object, path), at(after.Object, path)) {
				lost = append(lost, path)
			}
		}
		if len(lost) > 0 {
			set = maps.Clone(set)
			for _, path := range lost {
				delete(set, path)
			}
		}
		owners[manager] = set
	}
	return owners
}

func sameOwners(a, b map[string]fields) bool {
	return maps.EqualFunc(a, b, maps.Equal[fields, fields])
}

// same compares JSON values.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			other, ok := b[key]
			if !ok || !same(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// mergePatch changes obj as RFC 7386 says.
func mergePatch(obj, patch map[string]any) {
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(obj, key)
		case map[string]any:
			child, ok := obj[key].(map[string]any)
			if !ok {
				child = map[string]any{}
				obj[key] = child
			}
			mergePatch(child, value)
		default:
			obj[key] = value
		}
	}
}
