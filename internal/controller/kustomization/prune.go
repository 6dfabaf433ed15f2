package kustomization

import (
	"context"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// prune decides about the stale objects and carries the decision out: one batch of deletions, then a second look, so
// that what is gone at once leaves the inventory at once. The plan of the second look is only read, not executed.
func (p *pass) prune(ctx context.Context) *outcome {
	facts, overtaken, err := p.facts(ctx, true)
	if err != nil {
		return p.waitingErr(err)
	}
	if overtaken {
		return &outcome{state: stateProgressing, err: errOvertaken}
	}
	p.carryOut(ctx, facts)
	return nil
}

// carryOut decides, deletes what the decision says, and decides once more about what is left. It returns the facts as they
// are after that.
func (p *pass) carryOut(ctx context.Context, facts plan.Facts) plan.Facts {
	p.plan, p.planned = plan.Prune(facts), true
	p.checkSiblings(ctx, &facts)
	var pruned []string
	if len(p.plan.Delete) > 0 || len(p.plan.Release) > 0 {
		pruned = p.delete(ctx, p.plan.Delete)
		p.release(ctx, p.plan.Release)
		p.look(ctx, &facts)
		p.plan = plan.Prune(facts)
	}
	if pruned = append(pruned, p.skipped()...); len(pruned) > 0 {
		p.event(normal, p.changeReason(), strings.Join(pruned, "\n"))
	}
	p.drop()
	return facts
}

// checkSiblings decides once more if anything would be deleted: not by a list of siblings that may be a moment old. Where the
// new one holds something, that may be a user of what does not move.
func (p *pass) checkSiblings(ctx context.Context, facts *plan.Facts) {
	before := len(p.plan.Delete)
	if before == 0 {
		return
	}
	facts.Siblings = p.Siblings.Siblings(ctx, p.ks, p.now, 0)
	p.plan = plan.Prune(*facts)
	if after := len(p.plan.Delete); after > 0 && after < before {
		p.look(ctx, facts)
		p.plan = plan.Prune(*facts)
	}
}

// holdAll makes the plan of a pass that ended before its objects were applied in full: nothing is pruned.
func (p *pass) holdAll() {
	facts := p.knownFacts(p.stale())
	facts.Build = plan.Build{Revision: p.revision(), Newest: p.revision(), Desired: p.desired()}
	p.plan, p.planned = plan.Prune(facts), true
}

// facts gathers what the plan depends on. The source and the Kustomization are read once more if anything may be
// deleted: a newer revision or spec makes this build no proof any more (overtaken).
func (p *pass) facts(ctx context.Context, applied bool) (f plan.Facts, overtaken bool, err error) {
	f = p.factsOfBuild()
	f.Build.Applied = applied
	f.Build.Healthy = p.rollout.Verified || p.emptyHeld() // nothing is wanted, so nothing is unhealthy
	f.Build.SoakEnd = p.soakEnd()
	if len(p.toObserve(f)) == 0 {
		return f, false, nil
	}
	current := &v1.Kustomization{}
	if err := p.Reader.Get(ctx, keyOf(p.ks), current); err != nil {
		return f, false, err
	}
	if current.UID != p.ks.UID || current.Generation != p.ks.Generation || !samePolicy(current, p.ks) || current.DeletionTimestamp != nil {
		return f, true, nil
	}
	source, err := p.source(ctx)
	if err != nil {
		return f, false, err
	}
	f.Build.Newest = p.newest(source.GetArtifact())
	if p.course.Back && p.wanted == nil {
		f.Build.Newest = "" // what the source wants is not known, and may be any of it
	}
	f.Siblings = p.Siblings.Siblings(ctx, p.ks, p.now, observe.SiblingsAge)
	p.look(ctx, &f)
	return f, false, nil
}

// factsOfBuild are the facts that need no look at the cluster, for a build that is neither applied nor healthy.
func (p *pass) factsOfBuild() plan.Facts {
	f := p.knownFacts(p.stale())
	f.Build = plan.Build{
		Revision:      p.revision(),
		Newest:        p.revision(),
		Desired:       p.desired(),
		Brings:        p.target(),
		EmptyUnproven: len(p.built.Objects) == 0 && p.built.Empty == build.EmptyUnexplained,
	}
	return f
}

// newest names what the source offers now; empty when it offers nothing, since then the newest revision is not known. An
// artifact of the same revision may differ: what the source includes or ignores can change without a commit.
func (p *pass) newest(offered *meta.Artifact) string {
	switch {
	case offered == nil:
		return ""
	case offered.Revision == p.artifact.Revision && offered.Digest != p.artifact.Digest:
		return offered.Revision + " as " + offered.Digest
	}
	return offered.Revision
}

// knownFacts are the facts that need no look at the cluster.
func (p *pass) knownFacts(stale []inventory.Entry) plan.Facts {
	f := plan.Facts{
		Now:    p.now,
		Aside:  p.aside(),
		Owner:  p.owner(),
		Policy: p.policy(),
	}
	pruneWasOff := p.pruneWasOff()
	was := p.retainedBefore()
	confirmed := plan.Confirmed(was, p.ks.GetAnnotations()[v1.AnnotationConfirmPrune])
	lingering := plan.Lingering(was)
	released := plan.Released(was, p.ks.GetAnnotations()[v1.AnnotationReleaseKept])
	for _, e := range stale {
		s := plan.Stale{ID: e.ID, WasPruneOff: pruneWasOff(e.ID), Lingering: lingering.Has(e.ID), Confirmed: confirmed[e.ID],
			Released: released.Has(e.ID)}
		if refusal, ok := p.mem.refused[e.ID]; ok {
			s.Refused = &refusal
		}
		f.Stale = append(f.Stale, s)
	}
	return f
}

// pruneWasOff tells of an object whether it became stale while pruning was off. Status remembers that; where its list
// was cut short, every object that it does not show may be one of them.
func (p *pass) pruneWasOff() func(object.ID) bool {
	rollout := p.before.Status.Rollout
	if rollout == nil {
		return func(object.ID) bool { return false }
	}
	off, listed := map[string]bool{}, map[string]bool{}
	for _, r := range p.retainedBefore() {
		listed[r.ID] = true
		if isRemembered(r.Reason, r.Message) {
			off[r.ID] = true
		}
	}
	// They stand first in the list, so that it holds all of them if it holds anything else.
	cut := int(rollout.RetainedCount) > len(rollout.Retained) && len(off) == len(rollout.Retained)
	return func(id object.ID) bool { return off[id.Inventory()] || (cut && !listed[id.Inventory()]) }
}

// look reads the stale objects that matter, and then the users of those that only their users can keep.
func (p *pass) look(ctx context.Context, f *plan.Facts) {
	need := p.toObserve(*f)
	for i := range f.Stale {
		if need.Has(f.Stale[i].ID) {
			f.Stale[i].Seen = p.Observer.Stale(ctx, f.Stale[i].ID, p.now, p.ks.Spec.Interval.Duration)
		}
	}
	if len(plan.NeedTiming(*f)) > 0 && p.now.Sub(p.mem.timingAt) >= timingInterval {
		p.mem.timingAt = p.now
	}
	uses := p.reached.Users.UsersOf(ctx, p.question(*f))
	for i := range f.Stale {
		f.Stale[i].Use = uses[f.Stale[i].ID]
		if refusal, ok := p.mem.refused[f.Stale[i].ID]; ok {
			f.Stale[i].Refused = &refusal
		}
	}
}

// question asks who uses what only its users can keep.
func (p *pass) question(f plan.Facts) observe.Question {
	q := observe.Question{IDs: plan.NeedUse(f), History: f.Policy.Retain == v1.RetainHistory, Stale: plan.Standing(f), Around: p.around(),
		References: p.resolved().References, Unserved: f.Finalizing}
	if f.Finalizing {
		q.Self = p.selfID() // what it needs itself goes with it
	}
	return q
}

// around are the objects that this Kustomization made or is about to make.
func (p *pass) around() object.Set {
	all := object.Set{}
	for _, e := range p.inventory.Entries() {
		all[e.ID] = struct{}{}
	}
	return all
}

// skipped are the objects that begin to be kept because their own metadata says so, as Flux lists them beside what it deleted.
// Where status could not list all that are kept, none begins for sure.
func (p *pass) skipped() (lines []string) {
	rollout := p.start.Status.Rollout
	if p.toldSkipped || rollout != nil && int(rollout.RetainedCount) > len(rollout.Retained) {
		return nil
	}
	was := retainedReasons(rollout)
	for _, r := range p.plan.Retain {
		if r.Reason == v1.RetainedPruneDisabled && was[r.ID.Inventory()].Reason != r.Reason {
			lines = append(lines, r.ID.String()+" skipped")
			p.toldSkipped = true
		}
	}
	return lines
}

// delete sends the deletions and remembers those that were refused. It returns a line for each that was accepted.
func (p *pass) delete(ctx context.Context, deletions []plan.Deletion) (lines []string) {
	for _, d := range p.Executor.Delete(ctx, deletions, p.Mapper) {
		switch d.Outcome {
		case execute.DeleteAccepted:
			delete(p.mem.refused, d.ID)
			lines = append(lines, d.ID.String()+" deleted")
		case execute.DeleteFailed:
			p.mem.refused[d.ID] = plan.Refusal{At: p.now, Message: d.Err.Error()}
		case execute.DeleteStale:
			// The object changed since it was seen. The next look sees it as it is now.
		}
	}
	return lines
}

// release takes the owner labels from what a person let go of. A failure is told once, and tried again in the next pass.
func (p *pass) release(ctx context.Context, releases []plan.Release) {
	var lines []string
	for _, r := range releases {
		err := p.Executor.Release(ctx, r, p.Mapper)
		switch {
		case err == nil:
			delete(p.mem.unreleased, r.ID)
			lines = append(lines, r.ID.String()+" released: its owner labels are removed, and it stays on the cluster")
		case p.mem.unreleased[r.ID] != err.Error():
			p.mem.unreleased[r.ID] = err.Error()
			p.event(warning, v1.ReasonReleased, err.Error())
		}
	}
	if len(lines) > 0 {
		p.event(normal, v1.ReasonReleased, strings.Join(lines, "\n"))
	}
}

// drop takes out of the inventory what the plan lets go of without a deletion.
func (p *pass) drop() {
	gone := object.Set{}
	for _, d := range p.plan.Drop {
		gone[d.ID] = struct{}{}
		delete(p.mem.refused, d.ID)
		if d.Reason == plan.Foreign {
			p.event(normal, p.changeReason(),
				d.ID.String()+" skipped: it is managed by "+d.Message+"; it leaves the inventory and stays on the cluster")
		}
	}
	p.inventory = p.inventory.Without(gone)
	p.refusals = nil
	for _, r := range p.plan.Retain {
		if r.Reason == v1.RetainedDeleteFailed {
			p.refusals = append(p.refusals, r.Message)
		}
	}
	slices.Sort(p.refusals)
}
