package execute

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// overlaid is a value of a live object with what the manifest says put over it, and whether that changed nothing. What the manifest
// does not name stays. It knows no schema: items of lists are matched by their name, or else by their place, and other spellings of
// a quantity count as a change.
func overlaid(live, desired any) (any, bool) {
	switch want := desired.(type) {
	case map[string]any:
		if have, ok := live.(map[string]any); ok {
			return overlaidMap(have, want)
		}
	case []any:
		if have, ok := live.([]any); ok && len(have) == len(want) {
			return overlaidList(have, want)
		}
	case nil:
		return live, true
	}
	if equality.Semantic.DeepEqual(live, desired) || fmt.Sprint(live) == fmt.Sprint(desired) {
		return live, true
	}
	return desired, false
}

func overlaidMap(live, desired map[string]any) (any, bool) {
	out, same := runtime.DeepCopyJSON(live), true
	for key, want := range desired {
		value, equal := overlaid(live[key], want)
		out[key] = value
		same = same && equal
	}
	return out, same
}

func overlaidList(live, desired []any) (any, bool) {
	out, same := make([]any, len(desired)), true
	for i, want := range desired {
		have := live[i]
		if name := nameIn(want); name != "" {
			have = nil
			for j, other := range live {
				if nameIn(other) == name {
					have, same = other, same && i == j
				}
			}
		}
		value, equal := overlaid(have, want)
		out[i] = value
		same = same && equal
	}
	return out, same
}

// nameIn is the name of an item of a list; empty where it has none.
func nameIn(item any) string {
	m, ok := item.(map[string]any)
	if !ok {
		return ""
	}
	name, _ := m["name"].(string)
	return name
}
