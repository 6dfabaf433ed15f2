package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/paging"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// survey is what was listed to answer one question.
type survey struct {
	observer *Observer
	live     usage.Live
	// listed has the error of every list, or nil.
	listed map[place]error
	rules  []usage.Rule
	// unknown has, for the targets whose users can't be told in full, why.
	unknown map[object.ID]error
}

// place is a kind in a namespace, or in all of them when that is empty.
type place struct {
	gvk       schema.GroupVersionKind
	namespace string
}

// survey lists everything that can be a user of the targets.
func (o *Observer) survey(ctx context.Context, targets object.Set, q Question) *survey {
	s := &survey{observer: o, listed: map[place]error{}, rules: q.References, unknown: map[object.ID]error{}}
	custom, err := o.customKinds(q.Around)
	// Those that need all namespaces come first, so that no namespace is listed once more.
	ids := slices.SortedFunc(maps.Keys(targets), func(a, b object.ID) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), object.Compare(a, b))
	})
	for _, id := range ids {
		if usage.CanBeUsed(id) {
			for _, gvk := range usage.UserKinds {
				s.look(ctx, id, place{gvk, id.Namespace}, true)
			}
			s.fail(id, err)
			for _, gk := range custom {
				s.lookFor(ctx, id, usage.Source{GroupKind: gk})
			}
		}
		for _, source := range usage.Sources(id, q.Stale, q.References...) {
			s.lookFor(ctx, id, source)
		}
		s.checkRules(id, q)
	}
	return s
}

// checkRules makes the users of a target unknown where a rule that speaks of it is for a kind that nobody serves.
func (s *survey) checkRules(target object.ID, q Question) {
	for _, r := range q.References {
		if _, err := s.observer.Mapper.RESTMapping(r.From); r.Names(target) && meta.IsNoMatchError(err) && !q.Unserved {
			s.fail(target, fmt.Errorf("the cluster serves no kind %s, which a rule of spec.rollout.references is for: correct or remove it", r.From))
		}
	}
}

// lookFor lists a kind that need not be served.
func (s *survey) lookFor(ctx context.Context, target object.ID, source usage.Source) {
	mapping, err := s.observer.Mapper.RESTMapping(source.GroupKind)
	if meta.IsNoMatchError(err) {
		return
	}
	if err != nil {
		s.fail(target, fmt.Errorf("find the API of %s: %w", source.GroupKind, err))
		return
	}
	p := place{mapping.GroupVersionKind, target.Namespace}
	if source.Everywhere || mapping.Scope.Name() == meta.RESTScopeNameRoot {
		p.namespace = ""
	}
	s.look(ctx, target, p, false)
}

// look lists a place unless that was done before. A kind that is not required need not be served.
func (s *survey) look(ctx context.Context, target object.ID, p place, required bool) {
	if everywhere := (place{gvk: p.gvk}); p.namespace != "" {
		if err, done := s.listed[everywhere]; done && err == nil {
			return
		}
	}
	err, done := s.listed[p]
	if !done {
		var items usage.Live
		items, err = s.observer.list(ctx, p.gvk, p.namespace, s.rules)
		if !required && isUnserved(err) {
			err = s.observer.confirmUnserved(p.gvk.GroupKind(), err)
		}
		if err != nil {
			plural, _ := meta.UnsafeGuessKindToResource(p.gvk) // for a person to read
			err = fmt.Errorf("list %s%s: %w", plural.Resource, inNamespace(p.namespace), err)
		}
		s.listed[p] = err
		s.live = append(s.live, items...)
	}
	s.fail(target, err)
}

// confirmUnserved returns nil for a list that failed because its kind is not served any more, which the mapper may not know.
func (o *Observer) confirmUnserved(gk schema.GroupKind, failure error) error {
	if served, err := o.isServed(gk); err != nil || served {
		return failure
	}
	return nil
}

// fail makes the users of a target unknown, for the first reason that came up.
func (s *survey) fail(target object.ID, err error) {
	if err != nil && s.unknown[target] == nil {
		s.unknown[target] = err
	}
}

// customKinds are the kinds of the custom resources among the objects, and those that the definitions among them define.
func (o *Observer) customKinds(around object.Set) ([]schema.GroupKind, error) {
	kinds := map[schema.GroupKind]bool{}
	for id := range around {
		switch {
		case plan.IsCustom(id):
			kinds[id.GroupKind()] = true
		case plan.IsDefinition(id):
			resource, group, _ := strings.Cut(id.Name, ".")
			gvk, err := o.Mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
			if meta.IsNoMatchError(err) {
				continue // not served: there is nothing of it
			}
			if err != nil {
				return nil, fmt.Errorf("find the kind that %s defines: %w", id.Name, err)
			}
			kinds[gvk.GroupKind()] = true
		}
	}
	return slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) }), nil
}

// list reads a place. What is kept of it is what the users are found by, so that the largest of namespaces fits into the memory
// of a small controller.
func (o *Observer) list(ctx context.Context, gvk schema.GroupVersionKind, namespace string, rules []usage.Rule) (usage.Live, error) {
	var all usage.Live
	trimmer := usage.Trimmer{Rules: rules}
	err := o.each(ctx, gvk, namespace, func(u *unstructured.Unstructured) { all = append(all, trimmer.Trim(u)) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// each reads a place page by page.
func (o *Observer) each(ctx context.Context, gvk schema.GroupVersionKind, namespace string, visit func(*unstructured.Unstructured)) error {
	opts := client.ListOptions{Namespace: namespace, Limit: listPage}
	return paging.Each(ctx, o.Reader, opts, listOf(gvk), func(page *unstructured.UnstructuredList) (bool, error) {
		for i := range page.Items {
			visit(&page.Items[i])
		}
		return false, nil
	})
}

// listOf makes empty lists of a kind.
func listOf(gvk schema.GroupVersionKind) func() *unstructured.UnstructuredList {
	return func() *unstructured.UnstructuredList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return list
	}
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + namespace
}
