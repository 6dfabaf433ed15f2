package kustomization

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/trigger"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// The times between two looks when events announce changes. They make up for events that are missed.
const (
	watchedLook = 15 * time.Second
	// lookCost is the least time between two looks for every object that a look reads.
	lookCost = 2 * time.Millisecond
)

// watch says which objects this Kustomization waits for, so that it is queued when one of them changes: the objects whose
// health is awaited, Jobs that have not ended, those that are on their way out, and the workloads that use those that are in use. Other users, such as an
// Ingress, are left to the periodic look: they go rarely. It waits for nothing while it is healthy and keeps nothing that an
// event could release.
func (p *pass) watch() {
	if p.Trigger == nil {
		return
	}
	if p.reached == nil || p.reached.Remote {
		// The watches are on the controller's own cluster. Another one is looked at from time to time.
		p.Trigger.Set(keyOf(p.ks), 0)
		return
	}
	targets := map[trigger.Target]bool{}
	looks := 0
	if p.built != nil && p.nextLook() > 0 {
		for _, c := range p.checks() {
			p.addTarget(targets, c.ID, true)
			looks++
		}
	}
	for _, job := range p.followed {
		p.addTarget(targets, job, true)
		looks++
	}
	for _, r := range p.plan.Retain {
		switch r.Reason {
		case v1.RetainedTerminating:
			p.addTarget(targets, r.ID, true)
		case v1.RetainedInUse, v1.RetainedRevisionHistory:
			for _, gvk := range usage.UserKinds {
				p.addTarget(targets, object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: r.ID.Namespace}, false)
			}
		default:
			continue
		}
		looks++
	}
	p.Trigger.Set(keyOf(p.ks), time.Duration(looks)*lookCost, sortedTargets(targets)...)
	p.watched = len(targets) > 0
}

// addTarget adds the kind and namespace of an object. A kind whose API is not known now is left to the periodic look.
func (p *pass) addTarget(targets map[trigger.Target]bool, id object.ID, owned bool) {
	mapping, err := p.Mapper.RESTMapping(schema.GroupKind{Group: id.Group, Kind: id.Kind})
	if err != nil {
		return
	}
	targets[trigger.Target{Resource: mapping.Resource, Namespace: id.Namespace, Owned: owned}] = true
}

func sortedTargets(set map[trigger.Target]bool) []trigger.Target {
	targets := make([]trigger.Target, 0, len(set))
	for t := range set {
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b trigger.Target) int {
		return strings.Compare(a.Resource.String()+a.Namespace, b.Resource.String()+b.Namespace)
	})
	return targets
}

// eventsEndRetention tells whether everything that this Kustomization keeps, and that can end without a commit, ends with
// an event that is watched for, or can wait for the periodic look.
func (p *pass) eventsEndRetention() bool {
	if len(p.plan.Delete) > 0 {
		return false
	}
	for _, r := range p.plan.Retain {
		switch r.Reason {
		case v1.RetainedInUse, v1.RetainedRevisionHistory, v1.RetainedTerminating, v1.RetainedAwaitingHealth, v1.RetainedPruneDisabled,
			v1.RetainedPruneOff, v1.RetainedAwaitingConfirmation:
		default:
			return false
		}
	}
	return true
}
