package kustomization

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// healthyCondition is Flux's condition for the verdict on health.
const healthyCondition = "Healthy"

// writeStatus stores the status if it differs from what is stored. The write is bound to the version of the object that
// the pass started from, so that a newer inventory is never written over by an older one.
func (p *pass) writeStatus(ctx context.Context) error {
	p.ks.Status.Inventory = p.inventory.Encode()
	if p.before.Status.Inventory == nil && p.inventory.Len() == 0 {
		p.ks.Status.Inventory = nil
	}
	if !apiequality.Semantic.DeepEqual(p.rollout, v1.RolloutStatus{}) {
		p.ks.Status.Rollout = p.rollout.DeepCopy()
	}
	if apiequality.Semantic.DeepEqual(p.before.Status, p.ks.Status) {
		return nil
	}
	if p.ks.Status.Rollout == nil {
		p.ks.Status.Rollout = &v1.RolloutStatus{} // tells who wrote: the field manager is Flux's
	}
	after := p.ks.DeepCopy()
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Status().Patch(ctx, after, patch, client.FieldOwner(v1.StatusManager)); err != nil {
		return err
	}
	p.ks.ResourceVersion = after.ResourceVersion
	if p.ks.Status.Rollout != nil && after.Status.Rollout == nil {
		return errStockCRD
	}
	p.before = p.ks.DeepCopy()
	return nil
}

// errStockCRD says that the API server drops what has to be remembered. Without it nothing may be applied or pruned.
var errStockCRD = errors.New("the served Kustomization CRD has no status.rollout, so nothing can be remembered: " +
	"another installation replaced it; nothing is applied or pruned until `holdfast install --crds-only` was run")

// verdict is the outcome of a pass that came to the end of its steps.
func (p *pass) verdict() outcome {
	rev := p.target()
	switch {
	case p.course.Back:
		return p.backVerdict()
	case p.rollout.Phase == v1.PhaseVerifying && p.judged():
		return outcome{state: stateProgressing,
			message: p.at(checking, rev)}
	case p.rollout.Phase == v1.PhaseHeld && p.judged():
		p.at(checking, rev)
		return outcome{state: stateFailed, reason: fluxmeta.HealthCheckFailedReason, after: p.afterFailure(),
			message: fmt.Sprintf("health check failed after %s: %s", p.verifiedFor(), p.healthText) + p.whatNext()}
	case len(p.refusals) > 0:
		return outcome{state: stateFailed, reason: fluxmeta.PruneFailedReason, after: p.retryInterval(),
			message: "delete failed, errors: " + strings.Join(p.refusals, "; ")}
	case p.emptyHeld() && p.asksAPerson():
		return outcome{state: stateStalled, reason: string(v1.RetainedAwaitingConfirmation), after: p.interval(),
			message: fmt.Sprintf("0 objects built from %s of artifact %s, %d in the inventory: nothing is deleted. "+
				"To empty it on purpose add a kustomization.yaml with `resources: []`", pathOf(p.ks), p.artifact.Digest, p.inventory.Len())}
	}
	return outcome{state: stateReady, message: "Applied revision: " + rev + p.kept() + p.soaking(), after: p.untilNextApply()}
}

// whatNext says what follows a failed revision.
func (p *pass) whatNext() string {
	switch {
	case p.goesBack():
		return "; going back to " + p.rollout.LastHealthy.Revision
	case p.noRollback != "":
		return "; not rolled back, since " + p.noRollback + p.held()
	}
	return p.held()
}

// afterFailure is the time to the next pass: at once when it goes back.
func (p *pass) afterFailure() time.Duration {
	if p.goesBack() {
		return time.Millisecond
	}
	return p.retryInterval()
}

func (p *pass) untilNextApply() time.Duration {
	if p.ks.Spec.Interval.Duration <= 0 {
		return 0
	}
	if len(p.plan.Drop) > 0 && len(p.built.Objects) == 0 && p.inventory.Len() == 0 {
		return pendingLook // emptied by a confirmation: what was held back until now is a release like any other
	}
	return max(time.Millisecond, p.mem.nextApply.Sub(p.now))
}

// emptyHeld tells whether the build is empty without a word, and there is something to lose. Such a build is no release.
func (p *pass) emptyHeld() bool {
	return p.built != nil && len(p.built.Objects) == 0 && p.built.Empty == build.EmptyUnexplained && p.inventory.Len() > 0 && p.ks.Spec.Prune
}

// asksAPerson tells whether a deletion waits for a person.
func (p *pass) asksAPerson() bool { return p.plan.Reasons()[v1.RetainedAwaitingConfirmation] > 0 }

func pathOf(ks *v1.Kustomization) string {
	if ks.Spec.Path == "" {
		return "the root"
	}
	return ks.Spec.Path
}

// kept says how many objects are kept and why, in a form that changes only with them.
func (p *pass) kept() string {
	if len(p.plan.Retain) == 0 {
		return ""
	}
	var parts []string
	for reason, n := range p.plan.Reasons() {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	return fmt.Sprintf("; kept from pruning: %s", strings.Join(parts, ", "))
}

// soaking says until when the revision has to stay healthy, in a form that changes only when that begins anew.
func (p *pass) soaking() string {
	end := p.soakEnd()
	if end.IsZero() {
		return ""
	}
	return "; counts as healthy if it stays so until " + end.UTC().Format(time.RFC3339)
}

// verifiedFor is how long the verification took that failed. It does not change from pass to pass.
func (p *pass) verifiedFor() time.Duration {
	if p.rollout.Deadline == nil || p.rollout.Since == nil {
		return p.timeout()
	}
	began := p.rollout.Deadline.Add(-p.timeout())
	return max(0, p.rollout.Since.Sub(began)).Round(time.Second)
}

// report turns the outcome into conditions and the other fields of the status.
func (p *pass) report(out outcome) {
	p.acknowledge()
	if p.built != nil {
		if !p.planned {
			p.holdAll()
		}
		p.reportRetained()
	}
	p.reportHealthy()
	p.reportCourse(out)
	p.rollout = plan.Chronicle(p.rollout, p.course, p.now)
	p.reportSize()
	switch out.state {
	case stateReady:
		p.reportReady(out)
	case stateProgressing:
		if out.message != "" {
			p.markProgressing(out.message)
		}
	case stateWaiting, stateFailed:
		conditions.MarkFalse(p.ks, fluxmeta.ReadyCondition, out.reason, "%s", bounded(out.message))
		conditions.MarkReconciling(p.ks, fluxmeta.ProgressingWithRetryReason, "%s", p.reconcilingMessage())
	case stateStalled:
		conditions.MarkFalse(p.ks, fluxmeta.ReadyCondition, out.reason, "%s", bounded(out.message))
		conditions.MarkStalled(p.ks, out.reason, "%s", bounded(out.message))
		if out.reason != fluxAccessDenied && out.reason != fluxmeta.FeatureGateDisabledReason { // as in Flux, where the same spec may be allowed after a restart
			p.ks.Status.ObservedGeneration = p.ks.Generation
		}
	}
	p.reportHistory(out)
}

func (p *pass) reportReady(out outcome) {
	conditions.Delete(p.ks, fluxmeta.ReconcilingCondition)
	conditions.Delete(p.ks, fluxmeta.StalledCondition)
	conditions.MarkTrue(p.ks, fluxmeta.ReadyCondition, fluxmeta.ReconciliationSucceededReason, "%s", bounded(out.message))
	p.ks.Status.ObservedGeneration = p.ks.Generation
	p.ks.Status.LastAppliedRevision = p.target()
	p.ks.Status.LastAppliedOriginRevision = p.originRevision()
}

// originKey is the artifact metadata that names the revision an artifact was built from.
const originKey = "org.opencontainers.image.revision"

func (p *pass) originRevision() string { return p.artifact.Metadata[originKey] }

// reportHealthy sets the condition Healthy, which exists only where a verdict was asked for.
func (p *pass) reportHealthy() {
	switch {
	case p.built == nil:
	case !p.judged():
		conditions.Delete(p.ks, healthyCondition)
	case p.rollout.Phase == v1.PhaseVerifying:
		conditions.MarkUnknown(p.ks, healthyCondition, fluxmeta.ProgressingReason,
			checking+" for revision %s with a timeout of %s", p.target(), p.timeout())
	case p.rollout.Phase == v1.PhaseHeld:
		conditions.MarkFalse(p.ks, healthyCondition, fluxmeta.HealthCheckFailedReason, "%s", bounded(p.healthText))
	case p.rollout.Phase == v1.PhaseHealthy && (!p.saidHealthy() || p.changedByNewRevision()):
		passed := fmt.Sprintf("Health check passed in %s", p.passedIn())
		conditions.MarkTrue(p.ks, healthyCondition, fluxmeta.SucceededReason, "%s", passed)
		p.event(normal, fluxmeta.ProgressingReason, passed)
	}
}

// changedByNewRevision tells whether a revision that is new wrote something.
func (p *pass) changedByNewRevision() bool {
	return p.changed && p.start.Status.LastAppliedRevision != p.target()
}

// saidHealthy tells whether the condition says so already, of this generation of the spec.
func (p *pass) saidHealthy() bool {
	c := conditions.Get(p.ks, healthyCondition)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.ks.Generation
}

// passedIn is the time from the apply to the verdict.
func (p *pass) passedIn() time.Duration {
	if p.rolloutBefore().Phase != v1.PhaseVerifying || p.rolloutBefore().Since == nil {
		return 0
	}
	return p.now.Sub(p.rolloutBefore().Since.Time).Round(time.Second)
}

func (p *pass) rolloutBefore() v1.RolloutStatus {
	if p.before.Status.Rollout == nil {
		return v1.RolloutStatus{}
	}
	return *p.before.Status.Rollout
}

// reconcilingMessage is the stage that the pass came to, as in Flux. One that waits before its first keeps the message that is there.
func (p *pass) reconcilingMessage() string {
	if p.stage != "" {
		return p.stage
	}
	if c := conditions.Get(p.ks, fluxmeta.ReconcilingCondition); c != nil && c.Message != "" {
		return c.Message
	}
	return "Reconciliation in progress"
}

// The bounds of what status says about retained objects.
const (
	maxRetained        = 500
	maxRetainedBytes   = 256 << 10
	maxRetainedMessage = 512
	maxUsers           = 5
)

// reportRetained writes down what is kept. The time since when moves only when an object begins to be kept.
func (p *pass) reportRetained() {
	since := map[string]*metav1.Time{}
	for _, r := range p.rolloutBefore().Retained {
		since[r.ID] = r.Since
	}
	p.rollout.Retained = nil
	p.rollout.RetainedCount = int32(len(p.plan.Retain)) //nolint:gosec // an inventory never holds 2^31 objects
	size, most := 0, max(0, min(maxRetainedBytes, p.room()-inventorySize(p.inventory)+reserved/2))
	for _, r := range rememberedFirst(p.plan.Retain) {
		entry := retained(r, since[r.ID.Inventory()], p.now)
		size += len(entry.ID) + len(entry.Message) + len(entry.Until) + len(strings.Join(entry.Users, ""))
		if len(p.rollout.Retained) == maxRetained || size > most {
			break
		}
		p.rollout.Retained = append(p.rollout.Retained, entry)
	}
	p.reportPending()
	p.reportReleasable()
}

// reportReleasable says what a person may let go of. The digest is over what status shows.
func (p *pass) reportReleasable() {
	p.rollout.Releasable = nil
	digest := plan.ReleaseDigest(p.rollout.Retained)
	if digest == "" {
		return
	}
	count := int32(0)
	for _, r := range p.plan.Retain {
		if isRemembered(r.Reason, r.Message) && !r.Released {
			count++
		}
	}
	p.rollout.Releasable = &v1.ReleasableObjects{Digest: digest, Count: count}
}

// rememberedFirst puts first what only this list remembers: that an object left while pruning was off. Where the list is
// cut, it is cut behind them.
func rememberedFirst(retain []plan.Retention) []plan.Retention {
	ordered := slices.Clone(retain)
	slices.SortStableFunc(ordered, func(a, b plan.Retention) int {
		switch remembered, other := isRemembered(a.Reason, a.Message), isRemembered(b.Reason, b.Message); {
		case remembered == other:
			return 0
		case remembered:
			return -1
		}
		return 1
	})
	return ordered
}

// isRemembered tells whether the entry says that an object left while pruning was off.
func isRemembered(reason v1.RetentionReason, message string) bool {
	return plan.IsReleasable(v1.RetainedObject{Reason: reason, Message: message})
}

func retained(r plan.Retention, since *metav1.Time, now time.Time) v1.RetainedObject {
	if since == nil {
		t := metav1.NewTime(now.Truncate(time.Second))
		since = &t
	}
	return v1.RetainedObject{
		ID:        r.ID.Inventory(),
		Reason:    r.Reason,
		Message:   cut(r.Message, maxRetainedMessage),
		UID:       r.UID,
		Confirmed: r.Confirmed,
		Released:  r.Released,
		Since:     since,
		Users:     r.Users[:min(len(r.Users), maxUsers)],
		UserCount: int32(len(r.Users)), //nolint:gosec // see above
		Until:     r.Until,
	}
}

// reportHistory adds the verdict on what was rendered, when there is one: not for failures to fetch or build.
func (p *pass) reportHistory(out outcome) {
	status := out.reason
	switch {
	case out.state == stateReady:
		status = fluxmeta.ReconciliationSucceededReason
	case p.built == nil || out.state != stateFailed || out.err != nil:
		return
	}
	latest := p.ks.Status.History.Latest()
	if latest != nil && latest.Digest == p.built.Digest && latest.LastReconciledStatus == status &&
		latest.Metadata["revision"] == p.target() && !p.asked {
		return // nothing new: an idle interval writes no status
	}
	metadata := map[string]string{"revision": p.target()}
	if origin := p.originRevision(); origin != "" {
		metadata["originRevision"] = origin
	}
	p.ks.Status.History.Upsert(p.built.Digest, p.now, p.Now().Sub(p.now), status, metadata)
}

// maxMessage bounds a message, so that no error of an API server can outgrow what a condition or an event may hold.
const maxMessage = 8 << 10

func bounded(message string) string { return cut(message, maxMessage) }

func cut(message string, length int) string {
	if len(message) <= length {
		return message
	}
	return strings.ToValidUTF8(message[:length], "") + "..."
}
