package execute

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/jsondiff"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Filled is a list that the manifest has empty, and that somebody else has put something into: controllers do that with the rules of
// webhooks, the rules of aggregated roles, the pull secrets of accounts. To empty it at every interval would be to fight over it.
type Filled struct {
	ID object.ID
	// Path is a JSON pointer, and Manager who filled it.
	Path, Manager string
}

func (f Filled) String() string { return fmt.Sprintf("%s: %s is left to %s", f.ID, f.Path, f.Manager) }

// filled are such lists of an object. What the manifest says of rights and of who may talk to whom is meant, the empty list as well;
// and so is it where the object asks for it (ssa: Override), or where the manager is one whose fields are taken over.
func filled(desired, live *unstructured.Unstructured, takenOver []ssa.FieldManager) []Filled {
	if live == nil || meansEmpty(desired) {
		return nil
	}
	var out []Filled
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == v1.ApplyManager || entry.Subresource != "" || entry.FieldsV1 == nil || slices.ContainsFunc(takenOver, func(m ssa.FieldManager) bool {
			return strings.HasPrefix(entry.Manager, m.Name) // as they are taken over
		}) {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue // then it owns nothing that is known
		}
		for _, path := range filledIn(desired.Object, live.Object, fields, "") {
			out = append(out, Filled{ID: object.IDOf(desired), Path: path, Manager: entry.Manager})
		}
	}
	return out
}

// meansEmpty tells whether an empty list in a manifest is a statement.
func meansEmpty(desired *unstructured.Unstructured) bool {
	_, aggregated := desired.Object["aggregationRule"]
	return ssautils.AnyInMetadata(desired, map[string]string{v1.ControlPrefix + "ssa": "Override"}) ||
		strings.HasSuffix(desired.GetKind(), "NetworkPolicy") ||
		desired.GroupVersionKind().Group == "rbac.authorization.k8s.io" && !aggregated
}

// filledIn are the paths of the empty lists below a value that are not empty in the live one, as far as the fields of a manager reach.
func filledIn(desired, live any, owned map[string]any, path string) []string {
	switch want := desired.(type) {
	case map[string]any:
		if have, ok := live.(map[string]any); ok {
			return filledInMap(want, have, owned, path)
		}
	case []any:
		if have, ok := live.([]any); ok {
			return filledInList(want, have, owned, path)
		}
	}
	return nil
}

func filledInMap(want, have, owned map[string]any, path string) (out []string) {
	for key, value := range want {
		below, ok := owned["f:"+key].(map[string]any)
		if !ok {
			continue
		}
		at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		list, isList := value.([]any)
		if !isList || len(list) > 0 {
			out = append(out, filledIn(value, have[key], below, at)...)
			continue
		}
		if some, ok := have[key].([]any); ok && len(some) > 0 {
			out = append(out, at)
		}
	}
	return out
}

// filledInList looks at items that both have at the same place, or a pointer would mean two things.
func filledInList(want, have []any, owned map[string]any, path string) (out []string) {
	for i := range min(len(want), len(have)) {
		if below := itemOf(owned, want[i], have[i]); below != nil {
			out = append(out, filledIn(want[i], have[i], below, fmt.Sprintf("%s/%d", path, i))...)
		}
	}
	return out
}

// itemOf are the fields of an item of a list, which is told by its key; nil where it is owned by nobody, or is another one.
func itemOf(owned map[string]any, desired, live any) map[string]any {
	want, wantOK := desired.(map[string]any)
	have, haveOK := live.(map[string]any)
	if !wantOK || !haveOK {
		return nil
	}
	for name, below := range owned {
		text, isKey := strings.CutPrefix(name, "k:")
		fields, hasFields := below.(map[string]any)
		var key map[string]any
		if !isKey || !hasFields || json.Unmarshal([]byte(text), &key) != nil {
			continue
		}
		same := true
		for field, value := range key {
			same = same && sameKey(want[field], value) && sameKey(have[field], value)
		}
		if same {
			return fields
		}
	}
	return nil
}

// sameKey compares values of keys: numbers come as different types.
func sameKey(a, b any) bool {
	return equality.Semantic.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b)
}

// leaveFilled adds to a request that such lists are left alone, and returns them.
func (e *Executor) leaveFilled(req ApplyRequest, objects []*unstructured.Unstructured, live liveObjects) (ApplyRequest, []Filled) {
	takenOver := cleanup(e.OverrideManagers).FieldManagers
	var all []Filled
	req.Ignore = slices.Clip(req.Ignore)
	for _, obj := range objects {
		found := filled(obj, live[object.IDOf(obj)], takenOver)
		if len(found) == 0 {
			continue
		}
		gvk := obj.GroupVersionKind()
		rule := jsondiff.IgnoreRule{Selector: &jsondiff.Selector{Group: regexp.QuoteMeta(gvk.Group), Kind: regexp.QuoteMeta(gvk.Kind),
			Namespace: regexp.QuoteMeta(obj.GetNamespace()), Name: regexp.QuoteMeta(obj.GetName())}}
		for _, f := range found {
			rule.Paths = append(rule.Paths, f.Path)
		}
		slices.Sort(rule.Paths)
		rule.Paths = slices.Compact(rule.Paths) // several may have filled one
		req.Ignore = append(req.Ignore, rule)
		all = append(all, found...)
	}
	return req, all
}
