package kustomization

import (
	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/ssa/jsondiff"
)

// ignoreRules are the rules of spec.ignore in the terms of the library that applies. A rule without a target is for every object.
func ignoreRules(rules []fluxv1.IgnoreRule) []jsondiff.IgnoreRule {
	converted := make([]jsondiff.IgnoreRule, 0, len(rules))
	for _, rule := range rules {
		r := jsondiff.IgnoreRule{Paths: rule.Paths}
		if t := rule.Target; t != nil {
			r.Selector = &jsondiff.Selector{
				Group: t.Group, Version: t.Version, Kind: t.Kind, Name: t.Name, Namespace: t.Namespace,
				AnnotationSelector: t.AnnotationSelector, LabelSelector: t.LabelSelector,
			}
		}
		converted = append(converted, r)
	}
	return converted
}
