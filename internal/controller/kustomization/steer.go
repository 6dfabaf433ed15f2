package kustomization

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fluxcd/pkg/apis/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// steer decides whether this pass brings the build of the source to the cluster, or a stored revision. From here on a stored
// revision takes the place of the build: it is recorded, applied, judged and pruned for by the same steps.
func (p *pass) steer(ctx context.Context) *outcome {
	before := p.rollout
	p.rollout, p.course = plan.Steer(p.rollout, p.want(), p.said(), p.now)
	p.tellCourse(before)
	switch {
	case p.course.Back:
		return p.takeStored(ctx)
	case p.buildFault != nil:
		return p.faulty()
	case p.stopped():
		return &outcome{state: stateProgressing, after: p.pauseEnds()} // it was not suspended for a revision that a person chose, and that has ended
	case p.course.Again:
		p.asked = true
	}
	if p.independent {
		return p.checkDependencies(ctx) // they did not count while a person's choice stood
	}
	return nil
}

// faulty ends a pass whose source could not be built, now that no choice of a person makes up for it.
func (p *pass) faulty() *outcome {
	if p.buildFault.state == stateWaiting {
		p.rollout = plan.Wait(p.rollout, p.now)
	} else {
		p.rollout = plan.Refuse(p.rollout, p.now)
		p.mem.appliedKey = ""
	}
	return p.buildFault
}

// want is the build that the source wants; without a digest when it could not be built.
func (p *pass) want() plan.Want {
	w := plan.Want{Revision: p.revision(), Generation: p.ks.Generation, Requested: p.asked}
	if p.built != nil {
		w.Digest = p.built.Digest
	}
	return w
}

// said are the commands that stand in the annotations.
func (p *pass) said() plan.Said {
	a := p.ks.GetAnnotations()
	said := plan.Said{Rollback: a[v1.AnnotationRollback], Release: a[v1.AnnotationRelease], Retry: a[v1.AnnotationRetry]}
	request := &v1.RollbackRequest{}
	if said.Rollback != "" && json.Unmarshal([]byte(said.Rollback), request) == nil {
		said.Request = request
	}
	return said
}

// choosesStored tells whether a person chose a revision, or is about to: neither a build that fails nor a dependency that is
// not ready stands in the way of that, nor does a suspension.
func (p *pass) choosesStored() bool {
	if p.rollout.Pin != nil {
		return true
	}
	said := p.ks.GetAnnotations()[v1.AnnotationRollback]
	return said != "" && (p.rollout.Heard == nil || p.rollout.Heard.Rollback != said)
}

// tellCourse adds the events about commands that were taken up, and about what ended.
func (p *pass) tellCourse(before v1.RolloutStatus) {
	switch pin := p.rollout.Pin; {
	case p.course.Refused != "":
		p.event(warning, v1.ReasonPinned, "rollback not done: "+p.course.Refused)
	case pin != nil && (before.Pin == nil || before.Pin.Digest != pin.Digest || !before.Pin.At.Equal(pin.At)):
		p.event(normal, v1.ReasonPinned, pinText(pin))
	case p.course.Released != "":
		p.event(normal, v1.ReasonReleased, p.course.Released+" ended; "+p.revision()+" is taken again")
	}
}

// pinText says what is pinned, by whom, why and until when.
func pinText(pin *v1.Pin) string {
	text := "pinned to " + pin.Revision
	if pin.By != "" {
		text += " by " + pin.By
	}
	if pin.Reason != "" {
		text += fmt.Sprintf(" (%q)", cut(pin.Reason, maxRetainedMessage))
	}
	switch pin.Until {
	case plan.UntilNext:
		return text + " until the source renders something else, or `holdfast release`"
	case plan.UntilReleased, "":
		return text + " until `holdfast release`"
	}
	return text + " until " + pin.Until + ", or `holdfast release`"
}

// takeStored puts the stored revision in the place of the build. When it can't be read nothing is applied or pruned: what
// runs goes on running.
func (p *pass) takeStored(ctx context.Context) *outcome {
	stored, err := p.stored(ctx, p.course.To.Digest)
	if err != nil {
		return p.failed(meta.ReconciliationFailedReason, fmt.Errorf("revision %s can't be brought back: %w: %s; "+
			"nothing is applied or pruned, `holdfast release %s -n %s` takes the revision of the source again",
			p.course.To.Revision, err, "what runs goes on running", p.ks.Name, p.ks.Namespace))
	}
	if p.built != nil {
		p.wanted = p.built
	}
	p.built = stored
	if p.wanted != nil {
		p.rollout = plan.SetAside(p.rollout, p.idsOf(p.wanted), p.idsOf(p.built))
	}
	return nil
}

// idsOf are the objects of a build, under the identities of the API server: a build that is set aside is not settled.
func (p *pass) idsOf(b *build.Result) object.Set {
	set := make(object.Set, len(b.Objects))
	for _, obj := range b.Objects {
		set[p.canonical(object.IDOf(obj))] = struct{}{}
	}
	return set
}

// stored reads a stored revision, once per process.
func (p *pass) stored(ctx context.Context, digest string) (*build.Result, error) {
	if p.mem.stored != nil && p.mem.stored.Digest == digest {
		return p.mem.stored, nil
	}
	r, err := p.Revisions.Load(ctx, p.ks, plan.StoredAs(p.rollout, digest))
	if err != nil {
		return nil, err
	}
	result := &build.Result{Objects: r.Objects, Digest: digest}
	if len(r.Objects) == 0 {
		result.Empty = build.EmptyExplicit // it was healthy with nothing in it
	}
	p.mem.stored = result
	return result, nil
}

// target is the revision that this pass brings to the cluster.
func (p *pass) target() string {
	if p.course.Back {
		return p.course.To.Revision
	}
	return p.revision()
}

// aside is the revision that the source wants and that this pass does not bring.
func (p *pass) aside() *plan.Aside {
	s := p.rollout.Skipped
	if !p.course.Back || s == nil {
		return nil
	}
	a := &plan.Aside{Revision: s.Revision, Wants: object.Set{}}
	if s.Began != nil {
		a.Since = s.Began.Time
	}
	if p.wanted != nil {
		a.Wants = p.idsOf(p.wanted)
	}
	return a
}
