package usage

import (
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// hashSuffix matches the end that kustomize gives to the names of generated objects: ten digits of a digest, with the
// digits that could form words replaced. Source: kustomize's api/hasher.
var hashSuffix = regexp.MustCompile(`-[2456789bcdfghkmt]{10}$`)

// HasHashSuffix tells whether kustomize generated the name from the content of the object.
func HasHashSuffix(name string) bool { return hashSuffix.MatchString(name) }

// generated returns the targets with a name that kustomize generated, by their names.
func generated(targets object.Set) map[string][]object.ID {
	byName := map[string][]object.ID{}
	for id := range targets {
		if HasHashSuffix(id.Name) {
			byName[id.Name] = append(byName[id.Name], id)
		}
	}
	return byName
}

// mentions returns the targets that an object of an unknown kind names anywhere, in a string that is the name and nothing
// else. Only names with a hash are looked for: they mean one object, while a name such as "app" may mean anything.
func mentions(u *unstructured.Unstructured, byName map[string][]object.ID) []object.ID {
	if len(byName) == 0 {
		return nil
	}
	found := object.Set{}
	everyString(u.Object, func(s string) {
		for _, id := range byName[s] {
			if isInReach(u, id) {
				found[id] = struct{}{}
			}
		}
	})
	return sorted(found)
}

func everyString(node any, visit func(string)) {
	switch node := node.(type) {
	case string:
		visit(node)
	case map[string]any:
		for _, child := range node {
			everyString(child, visit)
		}
	case []any:
		for _, child := range node {
			everyString(child, visit)
		}
	}
}
