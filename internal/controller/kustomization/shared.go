package kustomization

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// shared is what a process remembers of the objects that another Kustomization wants as well.
type shared struct {
	objects object.Set
	// key is the build they were last applied with, and until the time up to which they are then left alone.
	key   string
	until time.Time
}

// lookForClaims looks whether another Kustomization wants the same objects, and says so. That costs a list of all Kustomizations,
// so it is asked only where an object was seen with the labels of another one, or after that. Where the others can't be listed,
// what was said stays.
func (p *pass) lookForClaims(ctx context.Context, taken []object.ID) {
	if len(taken) == 0 && !conditions.IsTrue(p.ks, v1.SharedObjectsCondition) {
		return
	}
	facts := plan.Facts{Siblings: p.Siblings.Siblings(ctx, p.ks, p.now, observe.SiblingsAge),
		Build: plan.Build{Revision: p.revision(), Desired: p.desired()}}
	if !facts.Siblings.Known {
		return
	}
	claims := plan.Claims(facts)
	p.mem.shared.objects = object.Set{}
	for _, c := range claims {
		p.mem.shared.objects[c.ID] = struct{}{}
	}
	p.reportClaims(claims)
}

// maxClaims bounds the objects that a message names.
const maxClaims = 3

// reportClaims sets the condition. The event comes once, when it begins.
func (p *pass) reportClaims(claims []plan.Claim) {
	if len(claims) == 0 {
		conditions.Delete(p.ks, v1.SharedObjectsCondition)
		return
	}
	var names []string
	for _, c := range claims[:min(len(claims), maxClaims)] {
		names = append(names, fmt.Sprintf("%s (%s)", c.ID, c.By))
	}
	text := strings.Join(names, ", ")
	if more := len(claims) - maxClaims; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	message := fmt.Sprintf("%d objects are wanted by another Kustomization, too: %s. Neither prunes them, and each sets them "+
		"back at its interval: take them out of one of the two", len(claims), text)
	if !conditions.IsTrue(p.ks, v1.SharedObjectsCondition) {
		p.event(warning, v1.ReasonClaimedTwice, message)
	}
	conditions.MarkTrue(p.ks, v1.SharedObjectsCondition, v1.ReasonClaimedTwice, "%s", bounded(message))
}

// toApply are the objects of the build that this pass applies. What another Kustomization wants, too, is applied with a new
// build, on request and once in an interval, but not each time that a failed revision is tried again: the two would never
// come to rest.
func (p *pass) toApply() []*unstructured.Unstructured {
	s := &p.mem.shared
	if p.asked || s.key != p.applyKey() || !p.now.Before(s.until) {
		return p.appliable()
	}
	return slices.DeleteFunc(slices.Clone(p.appliable()), func(obj *unstructured.Unstructured) bool {
		return s.objects.Has(object.IDOf(obj))
	})
}

// appliedAll notes that all objects of the build were applied, those that another Kustomization wants among them.
func (p *pass) appliedAll(objects int) {
	if objects == len(p.appliable()) {
		p.mem.shared.key, p.mem.shared.until = p.applyKey(), p.now.Add(p.interval())
	}
}
