package kustomization

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// The bounds of what the message of a deletion says.
const (
	maxAwaited      = 10
	maxAwaitedCause = 300
)

// farewellText says what a deletion waits for: whoever depends on the Kustomization, and each object with the reason. What is
// on its way out is named too, with its finalizers: others wait for it.
func farewellText(retained, blocking []plan.Retention) string {
	blocks := map[string]bool{}
	for _, r := range blocking {
		blocks[r.ID.String()] = true
	}
	var awaited, dependents []string
	for _, r := range retained {
		switch {
		case r.Reason == v1.RetainedDependentsExist:
			dependents = append(dependents, r.Message)
		case blocks[r.ID.String()], r.Reason == v1.RetainedTerminating:
			awaited = append(awaited, awaitedText(r))
		}
	}
	text := "Deletion in progress"
	if len(dependents) > 0 {
		text += fmt.Sprintf(", %d objects are not deleted yet: %s", len(dependents), dependents[0])
	}
	if len(awaited) == 0 {
		return text
	}
	text += ", waits for " + strings.Join(awaited[:min(len(awaited), maxAwaited)], ", ")
	if more := len(awaited) - maxAwaited; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// awaitedText is an object that a deletion waits for, with the reason.
func awaitedText(r plan.Retention) string {
	cause := r.Message
	if len(r.Users) > 0 && r.Reason == v1.RetainedInUse {
		cause = "used by " + slices.Min(r.Users)
		if more := len(r.Users) - 1; more > 0 {
			cause += fmt.Sprintf(" and %d more", more)
		}
	}
	if cause == "" {
		return fmt.Sprintf("%s (%s)", r.ID, r.Reason)
	}
	return fmt.Sprintf("%s (%s: %s)", r.ID, r.Reason, cut(cause, maxAwaitedCause))
}

// heldByDependents tells whether this pass deleted nothing because of those that depend on the Kustomization.
func (p *pass) heldByDependents() bool { return p.plan.Reasons()[v1.RetainedDependentsExist] > 0 }

// tellDependents says once that objects are deleted although something depends on them.
func (p *pass) tellDependents(facts plan.Facts) {
	dependents := plan.Dependents(facts)
	if dependents == "" || facts.MayAwaitDependents() || p.mem.toldDependents || len(facts.Stale) == 0 {
		return
	}
	p.mem.toldDependents = true
	p.event(warning, v1.ReasonDependentsIgnored, fmt.Sprintf(
		"%s, and did not go within %s: the objects are deleted all the same", dependents, p.timeout()))
}
