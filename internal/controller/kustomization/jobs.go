package kustomization

import (
	"context"
	"fmt"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// expiring are the Jobs of the build that Kubernetes deletes some time after they ended.
func (p *pass) expiring() []plan.Run {
	var jobs []plan.Run
	for _, obj := range p.built.Objects {
		id := object.IDOf(obj)
		if id.Group != "batch" || id.Kind != "Job" {
			continue
		}
		ttl, set, err := unstructured.NestedInt64(obj.Object, "spec", "ttlSecondsAfterFinished")
		digest, failed := build.Digest([]*unstructured.Unstructured{obj})
		if set && err == nil && failed == nil {
			jobs = append(jobs, plan.Run{ID: id, Digest: digest, TTL: time.Duration(ttl) * time.Second})
		}
	}
	return jobs
}

// haveRun are the Jobs that are not to be created again if they are not there.
func (p *pass) haveRun() object.Set {
	out := object.Set{}
	if len(p.rollout.CompletedJobs) == 0 {
		return out
	}
	for _, job := range p.expiring() {
		if plan.HasRun(p.rollout.CompletedJobs, job, p.now) {
			out[job.ID] = struct{}{}
		}
	}
	return out
}

// rememberRuns looks at the Jobs of the build that were just applied or are waited for, and writes down which of them have run.
// It returns those that are gone and that nobody saw to complete.
func (p *pass) rememberRuns(ctx context.Context) (unseen []object.ID) {
	jobs := p.expiring()
	for i := range jobs {
		// The time is cut to the second, as that of an event is.
		jobs[i].Seen, jobs[i].Completed = p.Observer.Job(ctx, jobs[i].ID, p.appliedSince())
	}
	was := p.rollout.CompletedJobs
	p.rollout.CompletedJobs = plan.Runs(was, jobs, p.now)
	if p.course.Back {
		p.rollout.CompletedJobs = plan.Remembering(p.rollout.CompletedJobs, was, jobs) // the failed revision's may be wanted again
	}
	for _, job := range jobs {
		if job.Seen == plan.Absent && job.Completed.IsZero() && !plan.HasRun(p.rollout.CompletedJobs, job, p.now) {
			unseen = append(unseen, job.ID)
		}
	}
	return unseen
}

// appliedSince is the time since when the verification of this build runs.
func (p *pass) appliedSince() time.Time {
	if p.rollout.Since == nil {
		return p.now
	}
	return p.rollout.Since.Time
}

// looksOnceMore tells whether a build that is healthy without Jobs that nobody saw to complete is looked at once more: what
// Kubernetes says of a Job may come a moment after the Job went.
func (p *pass) looksOnceMore(unseen []object.ID) bool {
	if len(unseen) == 0 || p.rollout.Phase != v1.PhaseVerifying || p.mem.unseenKey == p.applyKey() {
		return false
	}
	p.mem.unseenKey = p.applyKey()
	return true
}

// maxUnseenNames bounds the Jobs that an event names.
const maxUnseenNames = 3

// tellUnseen says of Jobs that are gone, and that nobody saw to complete, that they are taken for finished, when the build
// becomes healthy with that.
func (p *pass) tellUnseen(unseen []object.ID) {
	if len(unseen) == 0 || p.rollout.Phase != v1.PhaseHealthy || p.rolloutBefore().Phase == v1.PhaseHealthy {
		return
	}
	names := make([]string, 0, len(unseen))
	for _, id := range unseen[:min(len(unseen), maxUnseenNames)] {
		names = append(names, id.String())
	}
	if more := len(unseen) - maxUnseenNames; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	p.event(normal, fluxmeta.ProgressingReason, strings.Join(names, ", ")+
		" went before it was seen to complete: with ttlSecondsAfterFinished it is taken for finished, and is created again with the next apply")
}
