package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// Change is what happens to an object from one set to another.
type Change string

// The changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
	// Renamed is generated config whose content, and so whose name, changed.
	Renamed Change = "renamed"
)

// ObjectDiff is one object that differs.
type ObjectDiff struct {
	// ID of the object as Kind/namespace/name; of a renamed one under its new name.
	ID string `json:"id"`
	// Change is added, removed, changed or renamed.
	Change Change `json:"change"`
	// Before is the old name of one that was renamed.
	Before string `json:"before,omitempty"`
	// Fields that differ.
	Fields []FieldDiff `json:"fields,omitempty"`
}

// FieldDiff is one field that differs. The values of Secrets are not in it.
type FieldDiff struct {
	// Path of the field, with the names of list items in brackets.
	Path string `json:"path"`
	// From and To are the values as JSON, cut when they are long; empty where the field is not there.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// maxValue bounds a value that is shown.
const maxValue = 120

// DiffOf compares two sets of rendered objects. Config that kustomize renamed is one change, and values of Secrets are masked.
func DiffOf(from, to []*unstructured.Unstructured) []ObjectDiff {
	before, after := byID(from), byID(to)
	diffs := []ObjectDiff{}
	for id, old := range before {
		now, there := after[id]
		if !there {
			continue
		}
		if fields := fieldDiffs(old, now); len(fields) > 0 {
			diffs = append(diffs, ObjectDiff{ID: id.String(), Change: Changed, Fields: fields})
		}
		delete(before, id)
		delete(after, id)
	}
	for id, old := range before {
		if twin, ok := renamedTo(id, before, after); ok {
			diffs = append(diffs, ObjectDiff{ID: twin.String(), Change: Renamed, Before: id.Name, Fields: fieldDiffs(old, after[twin])})
			delete(before, id)
			delete(after, twin)
		}
	}
	for id := range before {
		diffs = append(diffs, ObjectDiff{ID: id.String(), Change: Removed})
	}
	for id := range after {
		diffs = append(diffs, ObjectDiff{ID: id.String(), Change: Added})
	}
	slices.SortFunc(diffs, func(a, b ObjectDiff) int { return strings.Compare(a.ID, b.ID) })
	return diffs
}

func byID(objects []*unstructured.Unstructured) map[object.ID]*unstructured.Unstructured {
	m := make(map[object.ID]*unstructured.Unstructured, len(objects))
	for _, obj := range objects {
		m[object.IDOf(obj)] = obj
	}
	return m
}

// stem is the identity of generated config without the hash of its content.
func stem(id object.ID) (object.ID, bool) {
	if id.Group != "" || id.Kind != "ConfigMap" && id.Kind != "Secret" || !usage.HasHashSuffix(id.Name) {
		return id, false
	}
	id.Name = id.Name[:strings.LastIndex(id.Name, "-")]
	return id, true
}

// renamedTo finds what took the place of generated config: the only new one with its stem, where it is the only old one.
func renamedTo(id object.ID, before, after map[object.ID]*unstructured.Unstructured) (object.ID, bool) {
	want, generated := stem(id)
	if !generated || countStem(before, want) != 1 || countStem(after, want) != 1 {
		return object.ID{}, false
	}
	for other := range after {
		if got, ok := stem(other); ok && got == want {
			return other, true
		}
	}
	return object.ID{}, false
}

func countStem(set map[object.ID]*unstructured.Unstructured, want object.ID) int {
	n := 0
	for id := range set {
		if got, ok := stem(id); ok && got == want {
			n++
		}
	}
	return n
}

// fieldDiffs compares two versions of an object, field by field. The name is not among them: it is what they are found by.
func fieldDiffs(old, now *unstructured.Unstructured) []FieldDiff {
	a, b := map[string]string{}, map[string]string{}
	flatten("", old.Object, a)
	flatten("", now.Object, b)
	delete(a, "metadata.name")
	delete(b, "metadata.name")
	secret := old.GetKind() == "Secret" && old.GroupVersionKind().Group == ""
	var fields []FieldDiff
	for _, path := range slices.Sorted(maps.Keys(merged(a, b))) {
		from, inOld := a[path]
		to, inNew := b[path]
		if inOld && inNew && from == to {
			continue
		}
		if secret && (strings.HasPrefix(path, "data") || strings.HasPrefix(path, "stringData") || strings.HasPrefix(path, "metadata.annotations")) {
			from, to = masked(inOld), masked(inNew)
		}
		fields = append(fields, FieldDiff{Path: path, From: cut(from, maxValue), To: cut(to, maxValue)})
	}
	return fields
}

// masked stands for a value of a Secret.
func masked(there bool) string {
	if there {
		return "(not shown)"
	}
	return ""
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// flatten writes the leaves of a value under their paths.
func flatten(path string, value any, into map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			flatten(joined(path, key), item, into)
		}
	case []any:
		for i, item := range v {
			flatten(fmt.Sprintf("%s[%s]", path, itemName(item, i)), item, into)
		}
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(fmt.Sprint(v))
		}
		into[path] = string(text)
	}
}

func joined(path, key string) string {
	if strings.ContainsAny(key, "./") {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// itemName is the name of a list item where it has one, so that an item that was put in front does not shift the others.
func itemName(item any, i int) string {
	if m, ok := item.(map[string]any); ok {
		if name, ok := m["name"].(string); ok && name != "" {
			return name
		}
	}
	return strconv.Itoa(i)
}

// signs stand before a change, with the word for it said elsewhere in the line where it is not plain.
var signs = map[Change]string{Added: "+", Removed: "-", Changed: "~", Renamed: ">"}

// writeDiffs writes changes as text.
func writeDiffs(b *strings.Builder, diffs []ObjectDiff, o TextOptions, indent string) {
	for _, d := range diffs {
		name := spaced(d.ID)
		if d.Change == Renamed {
			name += " (was " + d.Before + ")"
		}
		fmt.Fprintf(b, "%s%s %s%s\n", indent, signs[d.Change], name, changeWord(d.Change))
		for _, f := range d.Fields {
			fmt.Fprintf(b, "%s    %s\n", indent, f.text())
		}
	}
}

func changeWord(c Change) string {
	if c == Added || c == Removed {
		return " " + string(c)
	}
	return ""
}

func (f FieldDiff) text() string {
	switch {
	case f.From == "":
		return f.Path + ": " + f.To + " (new)"
	case f.To == "":
		return f.Path + ": " + f.From + " (gone)"
	case f.From == f.To:
		return f.Path + ": (changed)"
	}
	return f.Path + ": " + f.From + " -> " + f.To
}
