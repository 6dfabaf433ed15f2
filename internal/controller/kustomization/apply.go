package kustomization

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// record stores what is about to be created, before the first write to the cluster. A crash after this point can orphan
// nothing: whatever may exist is in the inventory.
func (p *pass) record(ctx context.Context) *outcome {
	if p.emptyHeld() {
		return nil // no rollout: what runs goes on running, and is what was healthy last
	}
	was := p.rollout
	p.rollout = plan.Begin(p.rollout, plan.Want{
		Revision:   p.target(),
		Digest:     p.built.Digest,
		Generation: p.ks.Generation,
		Requested:  p.asked,
	}, p.now)
	if out := p.tellCanceled(ctx, was); out != nil {
		return out
	}
	p.tellEmptied()
	recorded := p.inventory.Record(p.entries())
	grows := !recorded.Equal(p.inventory)
	p.inventory = recorded
	if !grows && !p.begins() {
		return nil
	}
	if grows {
		if refused := p.checkSize(); refused != nil {
			return refused
		}
	}
	p.acknowledge()
	p.markProgressing(p.at(detecting, p.target()))
	if err := p.writeStatus(ctx); err != nil {
		return p.lost(err)
	}
	return nil
}

// tellEmptied says once that a revision has no objects, and means it: all that is there is to go.
func (p *pass) tellEmptied() {
	if len(p.built.Objects) > 0 || p.inventory.Len() == 0 || !p.ks.Spec.Prune || !p.begins() {
		return
	}
	p.event(warning, v1.ReasonEmptied, fmt.Sprintf("revision %s has no objects on purpose: %d in the inventory are pruned", p.target(), p.inventory.Len()))
}

// begins tells whether this pass is the first of a rollout. A failed one that is tried again says nothing new before it has
// a result.
func (p *pass) begins() bool {
	if p.rollout.Phase != v1.PhaseApplying {
		return false
	}
	was := p.rolloutBefore()
	return p.asked || was.Wanted == nil || was.Wanted.Digest != p.rollout.Wanted.Digest ||
		was.WantedGeneration != p.rollout.WantedGeneration
}

// lost ends a pass whose status could not be written. A conflict means that the object changed under the pass: what
// was decided is void, and the next pass starts from what is there now.
func (p *pass) lost(err error) *outcome {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return &outcome{state: stateProgressing, err: errOvertaken}
	}
	switch {
	case errors.Is(err, errStockCRD):
		return p.failed(meta.ReconciliationFailedReason, err)
	case !p.isTooLarge():
		return &outcome{state: stateProgressing, err: fmt.Errorf("write status: %w", err)}
	}
	return p.tooLarge(err)
}

// largeStatus is the size from which on a status that could not be stored is taken for too large. The store of an API server
// takes requests of 1.5 MiB by default.
const largeStatus = 1 << 20

func (p *pass) isTooLarge() bool {
	content, err := json.Marshal(p.ks.Status)
	return err == nil && len(content) > largeStatus
}

// errOvertaken says that the object was changed by someone else during the pass. The pass is repeated at once.
var errOvertaken = errors.New("the Kustomization changed during the reconciliation")

// pendingLook is how soon to look at what an apply waits for.
const pendingLook = time.Second

// apply brings the objects of the build to the cluster, stage by stage. When the same build was applied before and the
// interval has not passed it does nothing.
func (p *pass) apply(ctx context.Context) *outcome {
	if p.emptyHeld() || p.isApplied() {
		return nil
	}
	p.at(detecting, p.target())
	objects := p.toApply()
	haveRun, err := p.haveRun(ctx)
	if err != nil {
		return p.failed(meta.ReconciliationFailedReason, err)
	}
	request := p.applyRequest(objects, haveRun)
	request.Settled = p.settled()
	result, err := p.Executor.Apply(ctx, request)
	p.noteJobs(result.Jobs)
	if errors.Is(err, errOvertaken) {
		return &outcome{state: stateProgressing, err: errOvertaken}
	}
	p.tellLeftAsIs(result.LeftAsIs)
	p.lookForClaims(ctx, result.TakenOver)
	p.tellFilled(result.Filled)
	if len(result.Changes) > 0 {
		p.changed = true
		p.events = append(p.events, event{kind: normal, reason: meta.ProgressingReason, message: strings.Join(result.Changes, "\n"),
			output: changeLog(result.Changes, p.GroupChangeLog)})
		p.tellInPlace(result.Changes)
	}
	if err != nil {
		return p.failed(meta.ReconciliationFailedReason, withChanges(withKept(err, p.plan.Retain), result.Changes))
	}
	if !result.Done() {
		return p.applyPending(result.Pending)
	}
	p.appliedAll(len(objects))
	p.applied = true
	p.mem.appliedKey = p.applyKey()
	p.mem.appliedAt = p.now
	p.mem.nextApply = p.now.Add(p.interval())
	p.rollout = plan.Applied(p.rollout, p.now, p.timeout())
	return nil
}

// applyRequest asks for objects of the build to be applied.
func (p *pass) applyRequest(objects []*unstructured.Unstructured, haveRun object.Set) execute.ApplyRequest {
	return execute.ApplyRequest{
		Owner:   types.NamespacedName{Namespace: p.ks.Namespace, Name: p.ks.Name},
		Objects: objects,
		HaveRun: haveRun,
		Force:   p.ks.Spec.Force,
		Back:    p.course.Back,
		Ignore:  ignoreRules(p.ks.Spec.Ignore),
		Fence:   p.fence,
	}
}

// maxLeft bounds what status lists of the objects that can't go back.
const maxLeft = 10

func (p *pass) tellLeftAsIs(left []execute.Left) {
	p.rollout.LeftAsIs = nil
	for _, l := range left[:min(len(left), maxLeft)] {
		p.rollout.LeftAsIs = append(p.rollout.LeftAsIs, cut(l.String(), maxRetainedMessage))
	}
}

// tellFilled says once of each list that somebody else fills that it is left alone.
func (p *pass) tellFilled(filled []execute.Filled) {
	now := make(map[execute.Filled]bool, len(filled))
	var news []string
	for _, f := range filled {
		if now[f] = true; !p.mem.filled[f] {
			news = append(news, f.String())
		}
	}
	p.mem.filled = now
	if len(news) > 0 {
		slices.Sort(news)
		p.event(normal, meta.ProgressingReason, "the manifest has empty lists that others fill:\n"+strings.Join(news, "\n"))
	}
}

// fence fails when the Kustomization is not the one any more that this pass recorded. A process that was stopped in the middle
// of an apply, and overtaken by another one meanwhile, must not go on to write what the other has pruned.
func (p *pass) fence(ctx context.Context) error {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KustomizationKind))
	if err := p.Reader.Get(ctx, keyOf(p.ks), current); err != nil {
		return fmt.Errorf("read the Kustomization during the apply: %w", err)
	}
	if current.UID != p.ks.UID || current.ResourceVersion != p.ks.ResourceVersion {
		return errOvertaken
	}
	return nil
}

// isApplied tells whether the build was applied before and that is to be taken as it is.
func (p *pass) isApplied() bool { return p.mem.appliedKey == p.applyKey() && !p.applyIsDue() }

// applyKey names what an apply is made of.
func (p *pass) applyKey() string { return fmt.Sprintf("%s/%d", p.built.Digest, p.ks.Generation) }

// applyIsDue tells whether a build that was applied before is to be applied again.
func (p *pass) applyIsDue() bool {
	switch {
	case p.rollout.Phase == v1.PhaseApplying, p.asked:
		return true
	case p.now.Before(p.mem.appliedAt):
		return true // the clock went back: the time of the next one would be an interval and more away
	case p.rollout.Phase == v1.PhaseHeld && !p.now.Before(p.mem.appliedAt.Add(p.retryInterval())):
		return true
	}
	return !p.now.Before(p.mem.nextApply)
}

// withChanges adds what was already written to an error, as Flux does: a person has to know how far the apply came.
func withChanges(err error, changes []string) error {
	if len(changes) == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, strings.Join(changes, "\n"))
}

// applyPending ends a pass whose next stage can't be applied yet. After the timeout it says so as a failure, and goes on
// looking.
func (p *pass) applyPending(pending []string) *outcome {
	text := strings.Join(pending, ", ")
	if p.rollout.Since != nil && p.now.Sub(p.rollout.Since.Time) >= p.timeout() {
		return &outcome{state: stateFailed, reason: meta.ReconciliationFailedReason, after: 10 * pendingLook,
			message: fmt.Sprintf("apply is not done after %s: %s", p.timeout(), text)}
	}
	return &outcome{state: stateProgressing, after: pendingLook,
		message: fmt.Sprintf("Applying revision %s: %s", p.target(), text)}
}

// markProgressing sets the conditions of a pass that is on its way.
func (p *pass) markProgressing(message string) {
	conditions.MarkReconciling(p.ks, meta.ProgressingReason, "%s", message)
	conditions.MarkUnknown(p.ks, meta.ReadyCondition, meta.ProgressingReason, "Reconciliation in progress")
}
