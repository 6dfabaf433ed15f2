package build

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// keyed is a list whose items are told apart by some of their fields. Server-side apply refuses a list with two items of
// one key, with a text that names neither object nor field. Source: the listMapKey markers of core/v1.
type keyed struct {
	field string
	keys  []string
	// defaults stand for keys that are not set.
	defaults map[string]string
}

var (
	tcp = map[string]string{"protocol": "TCP"}

	containerLists = []keyed{
		{field: "env", keys: []string{"name"}},
		{field: "ports", keys: []string{"containerPort", "protocol"}, defaults: tcp},
		{field: "volumeMounts", keys: []string{"mountPath"}},
		{field: "volumeDevices", keys: []string{"devicePath"}},
	}
	podLists = []keyed{
		{field: "containers", keys: []string{"name"}},
		{field: "initContainers", keys: []string{"name"}},
		{field: "volumes", keys: []string{"name"}},
	}
	serviceLists = []keyed{{field: "ports", keys: []string{"port", "protocol"}, defaults: tcp}}
)

// podSpecs is where Kubernetes' own kinds hold a pod spec.
var podSpecs = map[string][]string{
	"Pod":                   {"spec"},
	"ReplicationController": {"spec", "template", "spec"},
	"ReplicaSet":            {"spec", "template", "spec"},
	"Deployment":            {"spec", "template", "spec"},
	"StatefulSet":           {"spec", "template", "spec"},
	"DaemonSet":             {"spec", "template", "spec"},
	"Job":                   {"spec", "template", "spec"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template", "spec"},
}

// uniqueKeys returns an *ObjectError for the first list of the object that holds two items of one key.
func uniqueKeys(u *unstructured.Unstructured) error {
	group := u.GroupVersionKind().Group
	if group == "" && u.GetKind() == "Service" {
		return repeated(u, []string{"spec"}, serviceLists)
	}
	path, ok := podSpecs[u.GetKind()]
	if !ok || group != "" && group != "apps" && group != "batch" {
		return nil
	}
	if err := repeated(u, path, podLists); err != nil {
		return err
	}
	for _, list := range []string{"initContainers", "containers"} {
		// Fields of a wrong type are for the API server to refuse.
		containers, _, _ := unstructured.NestedFieldNoCopy(u.Object, append(path[:len(path):len(path)], list)...)
		items, _ := containers.([]any)
		for i, item := range items {
			at := fmt.Sprintf("%s.%s[%d]", strings.Join(path, "."), list, i)
			if err := repeatedIn(u, item, at, containerLists); err != nil {
				return err
			}
		}
	}
	return nil
}

func repeated(u *unstructured.Unstructured, path []string, lists []keyed) error {
	node, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	return repeatedIn(u, node, strings.Join(path, "."), lists)
}

func repeatedIn(u *unstructured.Unstructured, node any, at string, lists []keyed) error {
	m, ok := node.(map[string]any)
	if !ok {
		return nil
	}
	for _, list := range lists {
		items, _ := m[list.field].([]any)
		seen := map[string]bool{}
		for _, item := range items {
			key := list.key(item)
			if key != "" && seen[key] {
				return &ObjectError{
					ID: object.IDOf(u), Field: at + "." + list.field,
					Problem: "two entries have " + key + ", of which only one can be applied",
				}
			}
			seen[key] = true
		}
	}
	return nil
}

// key is the text of the item's key, or "" for an item without one.
func (l keyed) key(item any) string {
	m, ok := item.(map[string]any)
	if !ok {
		return ""
	}
	parts := make([]string, 0, len(l.keys))
	for _, k := range l.keys {
		v, ok := m[k]
		if !ok {
			if v, ok = l.defaults[k], l.defaults[k] != ""; !ok {
				return ""
			}
		}
		parts = append(parts, fmt.Sprintf("%s %v", k, v))
	}
	return strings.Join(parts, " and ")
}
