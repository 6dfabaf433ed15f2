package kustomization

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// withholdRivals finds what of a build must not be applied, since it would end holdfast's own work: a repository that Flux was
// bootstrapped from holds Flux itself. Such objects are wanted all the same: they stay in the inventory, so that going back to Flux
// forgets nothing, and are not pruned. On another cluster they do no harm.
func (p *pass) withholdRivals(context.Context) *outcome {
	p.rivals = object.Set{}
	var told []string
	for _, obj := range p.built.Objects {
		if p.reached.Remote {
			break
		}
		if reason := rival.Reason(obj, p.rivalsFor(obj)); reason != "" && !observe.IsSkipped(obj) { // else the repository says so itself
			p.rivals[object.IDOf(obj)] = struct{}{}
			told = append(told, fmt.Sprintf("%s (%s)", object.IDOf(obj), reason))
		}
	}
	p.tellRivals(told)
	return nil
}

// rivalsFor are the controllers that count for an object.
func (p *pass) rivalsFor(obj *unstructured.Unstructured) []string {
	if p.RivalsIn != "" && p.RivalsIn != obj.GetNamespace() {
		return nil
	}
	return p.Rivals
}

// tellRivals sets the condition. The event comes when what it says changes.
func (p *pass) tellRivals(told []string) {
	if len(told) == 0 {
		conditions.Delete(p.ks, v1.RivalSkippedCondition)
		return
	}
	message := bounded(fmt.Sprintf("not applied, and left as it is: %s. `holdfast takeover --check` prints the patch to make in Git",
		strings.Join(told, ", ")))
	if conditions.GetMessage(p.ks, v1.RivalSkippedCondition) != message {
		p.event(warning, v1.ReasonRivalSkipped, message)
	}
	conditions.MarkTrue(p.ks, v1.RivalSkippedCondition, v1.ReasonRivalSkipped, "%s", message)
}

// appliable are the objects of the build without those that must not be applied.
func (p *pass) appliable() []*unstructured.Unstructured {
	if len(p.rivals) == 0 {
		return p.built.Objects
	}
	return slices.DeleteFunc(slices.Clone(p.built.Objects), func(obj *unstructured.Unstructured) bool {
		return p.rivals.Has(object.IDOf(obj))
	})
}
