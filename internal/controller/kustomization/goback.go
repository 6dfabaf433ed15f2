package kustomization

import (
	"context"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/blame"
	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// considerGoingBack decides, once a revision has failed, whether the last healthy one is to be brought back. The next pass does
// it: what was decided is in the status by then, so that a crash in between changes nothing.
func (p *pass) considerGoingBack(ctx context.Context, overall health.Overall) {
	recovery := p.recovery()
	if p.course.Back || !plan.MayGoBack(p.rollout, recovery) {
		return
	}
	findings, err := p.findings(ctx, overall)
	if err != nil {
		p.noRollback = err.Error()
		return
	}
	p.tellFindings(findings)
	if !recovery.Any && !blame.IsBadRelease(findings) {
		p.noRollback = "what is wrong is not a fault of this revision's own workloads"
		return
	}
	if _, err := p.stored(ctx, p.rollout.LastHealthy.Digest); err != nil {
		p.noRollback = err.Error()
		return
	}
	message := fmt.Sprintf("failed after %s: %s", p.verifiedFor(), p.whatFailed(findings))
	p.rollout = plan.GoBack(p.rollout, cut(message, maxSkippedMessage), p.now)
}

// maxSkippedMessage bounds what status remembers of a failure.
const maxSkippedMessage = 2 << 10

// maxSuspects bounds the workloads that are looked into.
const maxSuspects = 10

// findings looks into the workloads of the build that are not healthy.
func (p *pass) findings(ctx context.Context, overall health.Overall) ([]blame.Finding, error) {
	var findings []blame.Finding
	suspects := 0
	for _, c := range overall.Waiting {
		if p.find(c.ID) == nil || !blame.IsWorkload(c.ID) {
			continue
		}
		if suspects++; suspects > maxSuspects {
			break
		}
		evidence, err := p.reached.Users.Evidence(ctx, c.ID)
		if err != nil {
			return nil, err
		}
		findings = append(findings, blame.Of(evidence)...)
	}
	return findings, nil
}

// tellFindings puts into the status which pod it is.
func (p *pass) tellFindings(findings []blame.Finding) {
	for i := range p.rollout.Culprits {
		culprit := &p.rollout.Culprits[i]
		for _, f := range findings {
			if f.ID == culprit.ID && f.Pod != "" {
				culprit.Pod, culprit.Container, culprit.Reason = f.Pod, f.Container, f.Reason
				if f.Message != "" {
					culprit.Message = cut(f.Message, maxRetainedMessage)
				}
				break
			}
		}
	}
}

// maxNamed bounds the culprits in one message.
const maxNamed = 3

// whatFailed names the first faults, and counts the rest.
func (p *pass) whatFailed(findings []blame.Finding) string {
	var lines []string
	seen := map[string]bool{}
	for _, f := range findings {
		if seen[f.ID] {
			continue
		}
		seen[f.ID] = true
		lines = append(lines, findingText(f))
	}
	if len(lines) == 0 {
		return p.healthText
	}
	text := strings.Join(lines[:min(len(lines), maxNamed)], "; ")
	if more := len(lines) - maxNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func findingText(f blame.Finding) string {
	text := f.ID + ":"
	if f.Pod != "" {
		text += " pod " + f.Pod
	}
	text += " " + f.Reason
	if f.Message != "" {
		text += " (" + cut(f.Message, maxRetainedMessage) + ")"
	}
	return text
}

// recovery is what the policy says about a failed revision.
func (p *pass) recovery() plan.Recovery {
	r := p.resolved().Recovery
	return plan.Recovery{Rollback: r.OnFailure == v1.OnFailureRollback && !p.NoRevisionStore, Any: r.On == v1.RollbackOnAny}
}

// goesBack tells whether this pass decided to bring the last healthy revision back.
func (p *pass) goesBack() bool { return !p.course.Back && p.rollout.Skipped != nil }

// backVerdict is the outcome of a pass that brought a stored revision.
func (p *pass) backVerdict() outcome {
	to, pin, skipped := p.course.To.Revision, p.rollout.Pin, p.rollout.Skipped
	why := ""
	if pin != nil {
		why = pinText(pin)
	} else if skipped != nil {
		why = skipped.Revision + " " + skipped.Message
	}
	switch {
	case p.rollout.Phase == v1.PhaseVerifying:
		return outcome{state: stateProgressing, message: fmt.Sprintf("Going back to revision %s with a timeout of %s: %s", to, p.timeout(), why)}
	case p.rollout.Phase == v1.PhaseHeld:
		return outcome{state: stateFailed, reason: meta.HealthCheckFailedReason, after: p.retryInterval(), message: fmt.Sprintf(
			"%s; going back to %s failed after %s: %s; everything is kept, push a fix%s", why, to, p.verifiedFor(), p.healthText, p.held())}
	case len(p.refusals) > 0:
		return outcome{state: stateFailed, reason: meta.PruneFailedReason, after: p.retryInterval(),
			message: why + "; delete failed, errors: " + strings.Join(p.refusals, "; ")}
	case pin != nil:
		return outcome{state: stateReady, message: "Applied revision: " + to + "; " + why + p.leftAsIs() + p.kept(), after: p.untilNextApply()}
	}
	return outcome{state: stateStalled, reason: v1.ReasonRolledBack, after: p.untilNextApply(),
		message: why + "; rolled back to " + to + p.leftAsIs() + p.kept()}
}

// leftAsIs names what could not be brought back.
func (p *pass) leftAsIs() string {
	left := p.rollout.LeftAsIs
	if len(left) == 0 {
		return ""
	}
	text := strings.Join(left[:min(len(left), maxNamed)], "; ")
	if more := len(left) - maxNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return "; left as it is: " + text
}

// reportCourse sets what status says of a stored revision that runs.
func (p *pass) reportCourse(out outcome) {
	switch pin := p.rollout.Pin; {
	case pin != nil:
		conditions.MarkTrue(p.ks, v1.PinnedCondition, v1.ReasonPinned, "%s", bounded(pinText(pin)))
	default:
		conditions.Delete(p.ks, v1.PinnedCondition)
	}
	if p.course.Back && p.rollout.Phase == v1.PhaseHealthy && (out.state == stateStalled || out.state == stateReady) {
		p.ks.Status.LastAppliedRevision = p.course.To.Revision
	}
}
