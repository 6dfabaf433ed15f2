package usage

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Trimmer makes objects small before they are kept. Most of a pod is read by no rule (images, probes, the state of each container,
// managed fields), and a namespace may have ten thousand of them. The zero value is ready; it is for one list.
type Trimmer struct {
	// Rules are those that the users will be looked for with.
	Rules []Rule
	// last has, for each controller, the last object of it. Pods of one controller mostly refer to the same things.
	last map[object.ID]*unstructured.Unstructured
}

// Trim returns an object with what this package reads of it: the answers about what is left are those about the object, and so are
// the errors. Kinds that are none of UserKinds are left as they are, but for managed fields: a reference may be anywhere in them.
// What is returned shares parts with the object, and with others that were trimmed before.
func (t *Trimmer) Trim(u *unstructured.Unstructured) *unstructured.Unstructured {
	gk := u.GroupVersionKind().GroupKind()
	read, ok := readOf[gk]
	if !ok || slices.ContainsFunc(t.Rules, func(r Rule) bool { return r.From == gk }) {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		return u
	}
	out := &unstructured.Unstructured{Object: read.of(u.Object).(map[string]any)} //nolint:forcetypeassert // of a map it is a map
	t.share(out)
	return out
}

// share replaces parts of an object by those of the last one of the same controller that are equal.
func (t *Trimmer) share(u *unstructured.Unstructured) {
	by := controllerOf(u)
	if by == (object.ID{}) {
		return
	}
	if last := t.last[by]; last != nil {
		shareField(u.Object, last.Object, "spec")
		shareField(u.Object["metadata"], last.Object["metadata"], "ownerReferences")
	}
	if t.last == nil {
		t.last = map[object.ID]*unstructured.Unstructured{}
	}
	t.last[by] = u
}

func shareField(node, last any, name string) {
	to, isMap := node.(map[string]any)
	from, wasMap := last.(map[string]any)
	if isMap && wasMap && reflect.DeepEqual(to[name], from[name]) && to[name] != nil {
		to[name] = from[name]
	}
}

// fields are the fields of an object that are read, each with those below it; nil for all that is below.
type fields map[string]fields

// readOf has what is read of each of UserKinds. It is drawn from the tables that are used to read it.
var readOf = func() map[schema.GroupKind]fields {
	all := map[schema.GroupKind]fields{}
	for gk := range runs {
		f := fields{}
		for _, p := range readOfAll {
			f.add(p)
		}
		for _, r := range objectRules[gk] {
			f.add(r.path)
		}
		if p, ok := claimSpecs[gk]; ok {
			f.addSources(p)
		}
		spec := templates[gk]
		for _, r := range podRules {
			f.add(spec, r.path)
		}
		f.addSources(spec, ephemeralClaim)
		f.add(spec, path{"serviceAccountName"})
		f.add(spec, path{"serviceAccount"})
		all[gk] = f
	}
	return all
}()

// readOfAll is read of every kind that has it.
var readOfAll = []path{
	{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "ownerReferences"},
	{"metadata", "creationTimestamp"}, {"metadata", "labels", revisionHash}, {"metadata", "annotations", revisionNumber},
	parsePath("spec.replicas"), parsePath("spec.paused"), parsePath("spec.volumeClaimTemplates[].metadata.name"),
	parsePath("status.phase"), parsePath("status.replicas"), parsePath("status.currentRevision"), parsePath("status.updateRevision"),
	parsePath("status.conditions[].type"), parsePath("status.conditions[].status"),
}

// addSources adds what a claim spec says of where the claim is filled from.
func (f fields) addSources(spec ...path) {
	f.add(append(slices.Clone(spec), path{"dataSource"})...)
	f.add(append(slices.Clone(spec), path{"dataSourceRef"})...)
}

// add adds the end of a path that is given in parts.
func (f fields) add(parts ...path) {
	p := slices.Concat(parts...)
	name := strings.TrimSuffix(p[0], listMark)
	below, known := f[name]
	switch {
	case len(p) == 1:
		f[name] = nil
	case known && below == nil: // all of it is read
	case !known:
		f[name] = fields{}
		fallthrough
	default:
		f[name].add(p[1:])
	}
}

// of returns the part of a node that is read. What has another type than the rules expect is left for them to find.
func (f fields) of(node any) any {
	if f == nil {
		return node
	}
	switch node := node.(type) {
	case map[string]any:
		out := make(map[string]any, min(len(f), len(node)))
		for name, below := range f {
			if value, ok := node[name]; ok {
				out[name] = below.of(value)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(node))
		for _, item := range node {
			part := f.of(item)
			if m, ok := part.(map[string]any); !ok || len(m) > 0 {
				out = append(out, part)
			}
		}
		return slices.Clip(out)
	default:
		return node
	}
}
