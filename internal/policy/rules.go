package policy

import (
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// hashLength is the length of the end that kustomize gives to a generated name, with its dash.
const hashLength = len("-") + 10

// When returns the time of pruning that the rules set for an object; empty for none. A rule that names the object goes
// before one for all of its kind; of two alike the first holds. The name of a generated object is given without its hash.
func When(rules []v1.PruneRule, id object.ID) v1.PruneWhen {
	var byKind v1.PruneWhen
	for _, r := range rules {
		switch {
		case r.Kind != id.Kind:
		case r.Name == "" && byKind == "":
			byKind = r.When
		case r.Name != "" && isNamed(id.Name, r.Name):
			return r.When
		}
	}
	return byKind
}

func isNamed(name, rule string) bool {
	return name == rule || usage.HasHashSuffix(name) && name[:len(name)-hashLength] == rule
}

// OnObject reads the annotation of a managed object. Rules on a Kustomization are its own policy and say nothing about
// when it is pruned itself.
func OnObject(kind, annotation string) v1.PruneWhen {
	if kind == v1.KustomizationKind && strings.Contains(annotation, "=") {
		return ""
	}
	return v1.PruneWhen(annotation)
}
