package policy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// references reads the reference rules of the spec, or else those of the annotation.
func (r *resolver) references(spec []v1.ReferenceRule) []usage.Rule {
	if len(spec) == 0 {
		return r.annotatedReferences()
	}
	rules := make([]usage.Rule, 0, len(spec))
	for i, s := range spec {
		rule, err := usage.NewRule(schema.GroupKind{Group: s.Group, Kind: s.Kind}, s.Path, s.TargetKind)
		if err != nil {
			r.problems = append(r.problems, fmt.Errorf("spec.rollout.references[%d] is %q: %w", i, Reference(s), err))
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

// annotatedReferences reads KIND.GROUP:PATH=TARGETKIND, separated by commas.
func (r *resolver) annotatedReferences() []usage.Rule {
	value := r.annotations[v1.AnnotationReferences]
	if value == "" {
		return nil
	}
	var rules []usage.Rule
	for part := range strings.SplitSeq(value, ",") {
		from, rest, _ := strings.Cut(strings.TrimSpace(part), ":")
		path, to, _ := strings.Cut(rest, "=")
		rule, err := usage.NewRule(schema.ParseGroupKind(from), path, to)
		if err != nil {
			r.problems = append(r.problems, fmt.Errorf("%s has %q: want rules KIND.GROUP:PATH=TARGETKIND separated by commas: %w",
				v1.AnnotationReferences, strings.TrimSpace(part), err))
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

// Reference writes a reference rule in the form of the annotation.
func Reference(r v1.ReferenceRule) string {
	return fmt.Sprintf("%s:%s=%s", schema.GroupKind{Group: r.Group, Kind: r.Kind}, r.Path, r.TargetKind)
}
