package kustomization

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/telemetry"
)

// isOrdinary tells whether a reason comes and goes with every rollout, so that telling it each time would be noise. What waits
// for confirmation has an event of its own, with the digest.
func isOrdinary(reason v1.RetentionReason) bool {
	switch reason {
	case v1.RetainedAwaitingHealth, v1.RetainedSuperseded, v1.RetainedTerminating, v1.RetainedMovedElsewhere,
		v1.RetainedAwaitingConfirmation:
		return true
	default:
		return false
	}
}

// tellRetained adds one event about the objects that begin to be kept for a reason that outlasts a rollout, and one about those
// that no longer are, though they were not deleted. It compares what status said with what it says now.
func (p *pass) tellRetained() {
	was, is := retainedReasons(p.start.Status.Rollout), retainedReasons(p.ks.Status.Rollout)
	var begin, end []string
	for id, now := range is {
		if before := was[id]; before.Reason != now.Reason && !isOrdinary(now.Reason) {
			begin = append(begin, fmt.Sprintf("%s kept from pruning: %s, until %s", spelled(id), now.Reason, now.Until))
		}
	}
	for id, before := range was {
		if _, still := is[id]; !still && !isOrdinary(before.Reason) && inventoryHas(p.ks, id) {
			end = append(end, spelled(id)+" no longer kept from pruning: it is wanted again")
		}
	}
	for _, lines := range [][]string{begin, end} {
		if len(lines) > 0 {
			slices.Sort(lines)
			p.event(normal, v1.ReasonRetained, strings.Join(lines, "\n"))
		}
	}
}

func retainedReasons(r *v1.RolloutStatus) map[string]v1.RetainedObject {
	out := map[string]v1.RetainedObject{}
	if r != nil {
		for _, o := range r.Retained {
			out[o.ID] = o
		}
	}
	return out
}

// spelled is the name of an object in messages, from its id in the inventory.
func spelled(id string) string {
	parsed, err := object.ParseInventory(id)
	if err != nil {
		return id
	}
	return parsed.String()
}

func inventoryHas(ks *v1.Kustomization, id string) bool {
	return ks.Status.Inventory != nil && slices.ContainsFunc(ks.Status.Inventory.Entries,
		func(ref fluxv1.ResourceRef) bool { return ref.ID == id })
}

// measureRetained sets the metrics of what is kept.
func (p *pass) measureRetained() {
	byReason := map[string]int{}
	for reason, n := range p.plan.Reasons() {
		byReason[string(reason)] = n
	}
	var oldest time.Time
	for _, r := range p.rollout.Retained {
		if r.Since != nil && (oldest.IsZero() || r.Since.Time.Before(oldest)) {
			oldest = r.Since.Time
		}
	}
	telemetry.Kept(p.ks.Namespace, p.ks.Name, byReason, oldest)
}
