package inquiry

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind finds the kind that a person means: its name, plural or short name in any case, with the group behind a dot where
// that is needed: ConfigMap, cm, deployments.apps.
func (q *Inquirer) kind(word string) (*meta.RESTMapping, error) {
	full, partial := schema.ParseResourceArg(strings.ToLower(word))
	wanted := partial.WithVersion("")
	if full != nil {
		if _, err := q.mapper.ResourceFor(*full); err == nil {
			wanted = *full
		}
	}
	candidates, err := q.mapper.ResourcesFor(wanted)
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, failed("find the kind "+word, word, err)
	}
	if len(candidates) == 0 {
		return nil, usagef("the cluster serves no kind %q: `kubectl api-resources` lists those that it does", word)
	}
	if groups := customGroups(candidates); len(groups) > 1 {
		return nil, usagef("%q is ambiguous, it is a kind in %s: write %s.%s, for example",
			word, strings.Join(groups, " and "), candidates[0].Resource, groups[0])
	}
	resource, err := q.mapper.ResourceFor(wanted)
	if err != nil {
		return nil, usagef("%q is ambiguous: write the plural and the group, such as deployments.apps: %w", word, err)
	}
	gvk, err := q.mapper.KindFor(resource)
	if err != nil {
		return nil, failed("find the kind "+word, word, err)
	}
	return q.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// customGroups are the groups of the candidates if none of them is a group of Kubernetes, which would go first.
func customGroups(candidates []schema.GroupVersionResource) []string {
	var groups []string
	for _, c := range candidates {
		if !strings.Contains(c.Group, ".") || strings.HasSuffix(c.Group, ".k8s.io") {
			return nil
		}
		groups = append(groups, c.Group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}
