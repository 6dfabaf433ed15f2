package kustomization

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// reportPending says which deletion waits for a person, and sets the condition for it. The digest is over what status
// shows, so that nobody confirms what they could not see.
func (p *pass) reportPending() {
	pending := plan.Pending(p.rollout.Retained)
	if len(pending) == 0 {
		p.rollout.PendingPrune = nil
		conditions.Delete(p.ks, v1.PruneHeldCondition)
		return
	}
	digest := plan.Digest(p.rollout.Retained)
	message := fmt.Sprintf("%d of %d objects are not deleted until that is confirmed: %s", len(pending), p.inventory.Len(), kinds(pending))
	if more := p.plan.Reasons()[v1.RetainedAwaitingConfirmation] - len(pending); more > 0 {
		message += fmt.Sprintf("; %d more are asked about afterwards", more)
	}
	p.rollout.PendingPrune = &v1.PendingPrune{Digest: digest, Count: int32(len(pending)), Message: message} //nolint:gosec // bounded by maxRetained
	command := fmt.Sprintf("holdfast confirm %s -n %s --expect %s", p.ks.Name, p.ks.Namespace, digest)
	conditions.MarkTrue(p.ks, v1.PruneHeldCondition, string(v1.RetainedAwaitingConfirmation), "%s", message+". To allow exactly this: "+command)
	if was := p.rolloutBefore().PendingPrune; (was == nil || was.Digest != digest) && !p.emptyHeld() {
		p.event(normal, string(v1.RetainedAwaitingConfirmation), message+". To allow exactly this: "+command)
	}
	if p.ks.GetAnnotations()[v1.AnnotationConfirmPrune] == digest {
		p.plan.Recheck = confirmedLook // it was confirmed before it was shown
	}
}

// confirmedLook is how soon to act on a confirmation that is there already.
const confirmedLook = time.Second

// kinds counts objects by kind, the most frequent first.
func kinds(retained []v1.RetainedObject) string {
	counts := map[string]int{}
	for _, r := range retained {
		if id, err := object.ParseInventory(r.ID); err == nil {
			counts[id.Kind]++
		}
	}
	names := make([]string, 0, len(counts))
	for kind := range counts {
		names = append(names, kind)
	}
	slices.SortFunc(names, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, kind := range names {
		names[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return strings.Join(names, ", ")
}

// held names what a failed revision keeps from being pruned, and the way out for what can't wait.
func (p *pass) held() string {
	var ids []object.ID
	for _, r := range p.plan.Retain {
		if r.Reason == v1.RetainedAwaitingHealth {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; kept until a revision is healthy: " + named(ids)
}
