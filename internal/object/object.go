// Package object identifies Kubernetes objects and orders them.
//
// It is pure: no client, clock or context. What an object contains is not its business.
package object

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ID identifies an object across API versions, as the inventory does.
type ID struct {
	Group     string
	Kind      string
	Namespace string
	Name      string
}

// IDOf returns the identity of an object.
func IDOf(u *unstructured.Unstructured) ID {
	gvk := u.GroupVersionKind()
	return ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
}

// GroupKind returns the group and kind of the object.
func (id ID) GroupKind() schema.GroupKind { return schema.GroupKind{Group: id.Group, Kind: id.Kind} }

// String is the name of the object in messages: Kind/namespace/name, or Kind/name for cluster-scoped ones.
func (id ID) String() string {
	if id.Namespace == "" {
		return id.Kind + "/" + id.Name
	}
	return id.Kind + "/" + id.Namespace + "/" + id.Name
}

// The separators of the inventory form. Names of RBAC objects may hold colons, which become two underscores.
const (
	fieldSeparator   = "_"
	colonReplacement = "__"
)

// Inventory is the form of the identity that Flux's inventory uses: <namespace>_<name>_<group>_<kind>.
func (id ID) Inventory() string {
	name := strings.ReplaceAll(id.Name, ":", colonReplacement)
	return strings.Join([]string{id.Namespace, name, id.Group, id.Kind}, fieldSeparator)
}

// IsRecordable tells whether the inventory form can be read back. RBAC names may hold underscores as well as colons, and
// some of them ("a__b") are written like another one ("a:b"): what is recorded under it would be forgotten or, worse, taken
// for the other.
func (id ID) IsRecordable() bool {
	read, err := ParseInventory(id.Inventory())
	return err == nil && read == id
}

// ParseInventory reads the form that Inventory writes. Group and kind are cut from the end and the namespace from the
// front, since none of them can hold an underscore and the name may.
func ParseInventory(s string) (ID, error) {
	namespace, rest, ok := strings.Cut(s, fieldSeparator)
	if !ok {
		return ID{}, malformed(s)
	}
	i := strings.LastIndex(rest, fieldSeparator)
	if i < 0 {
		return ID{}, malformed(s)
	}
	rest, kind := rest[:i], rest[i+1:]
	i = strings.LastIndex(rest, fieldSeparator)
	if i < 0 {
		return ID{}, malformed(s)
	}
	name, group := rest[:i], rest[i+1:]
	if name == "" || kind == "" {
		return ID{}, malformed(s)
	}
	id := ID{Group: group, Kind: kind, Namespace: namespace, Name: strings.ReplaceAll(name, colonReplacement, ":")}
	if problem := id.Unaddressable(); problem != "" {
		return ID{}, fmt.Errorf("inventory id %q: %s", s, problem)
	}
	return id, nil
}

func malformed(s string) error {
	return fmt.Errorf("inventory id %q: want <namespace>_<name>_<group>_<kind>", s)
}

// Unaddressable says why no object can have the identity, as its name or namespace can't be a part of a URL; empty when one
// can. A name such as "../configmaps/c" would make a request for one object a request for another.
func (id ID) Unaddressable() string {
	for _, part := range []struct{ field, value string }{{"namespace", id.Namespace}, {"name", id.Name}} {
		if problems := content.IsPathSegmentName(part.value); len(problems) > 0 {
			return fmt.Sprintf("%s %q %s", part.field, part.value, strings.Join(problems, ", "))
		}
	}
	return ""
}

// Compare is a total order over identities: by group, kind, namespace, then name.
func Compare(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Set is a set of identities.
type Set map[ID]struct{}

// NewSet returns a set of the given identities.
func NewSet(ids ...ID) Set {
	s := make(Set, len(ids))
	for _, id := range ids {
		s[id] = struct{}{}
	}
	return s
}

// Has tells whether the identity is in the set. A nil set has none.
func (s Set) Has(id ID) bool {
	_, ok := s[id]
	return ok
}
