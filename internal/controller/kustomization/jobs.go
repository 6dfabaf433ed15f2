package kustomization

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/health"
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

// appliedJob is a Job that this process applied.
type appliedJob struct {
	digest string
	uid    types.UID
	// openSince is since when nobody knows how it ended though it is not seen any more, and failed what was said of its failure.
	openSince time.Time
	failed    string
	// told is true when it was told that nobody saw how it ended.
	told bool
}

// noteJobs remembers which Jobs are those of the build.
func (p *pass) noteJobs(uids map[object.ID]types.UID) {
	was := p.mem.jobs
	p.mem.jobs = map[object.ID]appliedJob{}
	for _, job := range p.expiring() {
		known, there := was[job.ID]
		if uid := uids[job.ID]; uid != "" && (known.uid != uid || known.digest != job.Digest) {
			known, there = appliedJob{digest: job.Digest, uid: uid}, true
		}
		if there {
			p.mem.jobs[job.ID] = known
		}
	}
}

// lookAt reads a Job of the build, if this process applied it. What Kubernetes said of one that is gone is read with the rights that
// look for users: an account that may apply Jobs need not see events.
func (p *pass) lookAt(ctx context.Context, job plan.Run) plan.Run {
	known := p.mem.jobs[job.ID]
	if known.digest != job.Digest {
		return job
	}
	job.UID = known.uid
	job = p.Observer.Run(ctx, job)
	if job.Seen == plan.Absent {
		job = p.reached.Users.RunSaid(ctx, job)
	}
	switch {
	case job.Failed != "":
		known.failed = job.Failed
	case job.IsOpen() && known.failed != "":
		job.Failed = known.failed // events are kept for an hour
	case job.IsOpen() && known.openSince.IsZero():
		known.openSince = p.now
	case job.Seen == plan.Present:
		known.openSince = time.Time{}
	}
	p.mem.jobs[job.ID] = known
	return job
}

// haveRun are the Jobs that are not to be created again if they are not there. Those that this process created, and that are gone,
// are looked for once more: the pass that created them may have ended before it could write down that they have run, and what
// Kubernetes says may have come late. While nobody knows where a Job that is remembered ran, it is an error: it may have run here.
func (p *pass) haveRun(ctx context.Context) (object.Set, error) {
	jobs := p.expiring()
	unplaced := p.place(ctx, jobs)
	var recalled []plan.Run
	for i, job := range jobs {
		if err := unplaced[i]; err != nil && plan.IsNamed(p.rollout.CompletedJobs, job) {
			return nil, fmt.Errorf("%s may have run: %w", job.ID, err)
		}
		if plan.IsRemembered(p.rollout.CompletedJobs, job) {
			continue
		}
		if job = p.lookAt(ctx, job); job.Seen == plan.Absent && !job.Completed.IsZero() {
			recalled = append(recalled, job)
		}
	}
	if len(recalled) > 0 {
		p.rollout.CompletedJobs = plan.Remembering(plan.Runs(nil, recalled, p.now), p.rollout.CompletedJobs, recalled)
	}
	out := object.Set{}
	for _, job := range jobs {
		if plan.HasRun(p.rollout.CompletedJobs, job, p.now) {
			out[job.ID] = struct{}{}
		}
	}
	return out, nil
}

// place finds the Namespaces of Jobs, with the rights that look for users, and returns why that of a Job is not known now. Where it may
// not be read at all there is no use in waiting: nothing is remembered of such a Job.
func (p *pass) place(ctx context.Context, jobs []plan.Run) []error {
	failures := make([]error, len(jobs))
	p.noPlace = ""
	uids, faults := map[string]types.UID{}, map[string]error{}
	for i := range jobs {
		name := jobs[i].ID.Namespace
		if _, asked := uids[name]; !asked {
			uids[name], faults[name] = p.reached.Users.NamespaceUID(ctx, name)
		}
		jobs[i].Namespace = uids[name]
		switch err := faults[name]; {
		case apierrors.IsForbidden(err):
			p.noPlace = err.Error()
		case err != nil:
			failures[i] = err
		}
	}
	return failures
}

// rememberRuns looks at the Jobs of the build that were just applied or are waited for, and writes down which of them have run. While
// nobody knows where they are, what is remembered stays as it is.
func (p *pass) rememberRuns(ctx context.Context) []plan.Run {
	jobs := p.expiring()
	placed := errors.Join(p.place(ctx, jobs)...) == nil
	for i := range jobs {
		jobs[i] = p.lookAt(ctx, jobs[i])
	}
	if !placed {
		return jobs
	}
	was := p.rollout.CompletedJobs
	p.rollout.CompletedJobs = plan.Runs(was, jobs, p.now)
	if p.course.Back {
		p.rollout.CompletedJobs = plan.Remembering(p.rollout.CompletedJobs, was, jobs) // the failed revision's may be wanted again
	}
	return jobs
}

// wordWithin is how long a build that would be healthy without a Job that is gone waits for a word of how that ended: what
// Kubernetes says of a Job may come some seconds after the Job went.
const wordWithin = 15 * time.Second

// wordLook is how soon to look for it again.
const wordLook = time.Second

// weighRuns corrects the verdicts about Jobs that are gone. Their absence alone says that they ended, and not how.
func (p *pass) weighRuns(checked []health.Checked, jobs []plan.Run) {
	p.awaitsWord = false
	for _, job := range jobs {
		i := slices.IndexFunc(checked, func(c health.Checked) bool { return c.ID == job.ID })
		switch {
		case i < 0 || checked[i].Verdict.Status != health.Current:
		case job.Failed != "" && job.Seen != plan.Present:
			checked[i].Verdict = health.Verdict{Status: health.Failed, Message: "Job failed and is gone: " + job.Failed}
		case p.isAwaited(job):
			p.awaitsWord = true
			checked[i].Verdict = health.Verdict{Status: health.InProgress, Message: "nothing says yet how the Job ended"}
		}
	}
}

// isAwaited tells whether it is worth waiting for a word of how a Job ended. After the time of the verification it is not.
func (p *pass) isAwaited(job plan.Run) bool {
	verifying := p.rollout.Phase == v1.PhaseVerifying && (p.rollout.Deadline == nil || p.now.Before(p.rollout.Deadline.Time))
	return verifying && p.isOpen(job) && p.now.Before(p.mem.jobs[job.ID].openSince.Add(wordWithin))
}

// isOpen tells whether nobody knows how a Job ended, and nothing is remembered of it.
func (p *pass) isOpen(job plan.Run) bool {
	return job.IsOpen() && !plan.IsRemembered(p.rollout.CompletedJobs, job)
}

// followJobs looks at the Jobs of a build that is healthy without them: one that completes later has run all the same.
func (p *pass) followJobs(ctx context.Context) {
	if len(p.mem.jobs) > 0 {
		jobs := p.rememberRuns(ctx)
		p.tellUnseen(jobs)
		p.follow(jobs)
	}
}

// follow notes which Jobs are to be looked at until it is known how they ended. Of one that is gone there may never be a word.
func (p *pass) follow(jobs []plan.Run) {
	p.followed = nil
	for _, job := range jobs {
		ended := !job.Completed.IsZero() && (job.Namespace != "" || p.noPlace != "") || job.Failed != ""
		if job.UID != "" && !ended && !plan.IsRemembered(p.rollout.CompletedJobs, job) && !p.isGivenUp(job) {
			p.followed = append(p.followed, job.ID)
		}
	}
}

// isGivenUp tells of a Job that is not seen any more whether a word of how it ended was waited for in vain.
func (p *pass) isGivenUp(job plan.Run) bool {
	return job.Seen == plan.Absent && p.isOpen(job) && !p.now.Before(p.mem.jobs[job.ID].openSince.Add(wordWithin))
}

// tellUnseen says once of Jobs that are gone, and that nobody saw to complete, that they are taken for finished: when the build
// becomes healthy with that, or has been healthy without them.
func (p *pass) tellUnseen(jobs []plan.Run) {
	becomes := p.rolloutBefore().Phase != v1.PhaseHealthy
	var unseen []object.ID
	unheard := ""
	for _, job := range jobs {
		known := p.mem.jobs[job.ID]
		if known.told || !p.isOpen(job) || job.Seen != plan.Absent || p.rollout.Phase != v1.PhaseHealthy || !becomes && !p.isGivenUp(job) {
			continue
		}
		known.told = true
		p.mem.jobs[job.ID] = known
		unseen = append(unseen, job.ID)
		unheard = cmp.Or(unheard, job.Unheard)
	}
	if len(unseen) == 0 {
		return
	}
	text := jobNames(unseen) +
		" went before it was seen to complete: with ttlSecondsAfterFinished it is taken for finished, and is created again with the next apply"
	if unheard != "" {
		text += "; what Kubernetes said of its end can't be read: " + cut(unheard, maxRetainedMessage)
	}
	p.event(normal, fluxmeta.ProgressingReason, text)
}

// tellUnplaced says of Jobs whose Namespace may not be read that they are run again, when the build becomes healthy.
func (p *pass) tellUnplaced(jobs []plan.Run) {
	if p.noPlace == "" || p.rollout.Phase != v1.PhaseHealthy || p.rolloutBefore().Phase == v1.PhaseHealthy {
		return
	}
	var unplaced []object.ID
	for _, job := range jobs {
		if job.Namespace == "" {
			unplaced = append(unplaced, job.ID)
		}
	}
	p.event(normal, fluxmeta.ProgressingReason, jobNames(unplaced)+" is created again with an apply after its ttlSecondsAfterFinished removed it: "+
		"without its Namespace nobody knows whether it ran on this cluster; allow the account of the kubeconfig to get it: "+cut(p.noPlace, maxRetainedMessage))
}

// maxJobNames bounds the Jobs that an event names.
const maxJobNames = 3

func jobNames(ids []object.ID) string {
	names := make([]string, 0, len(ids))
	for _, id := range ids[:min(len(ids), maxJobNames)] {
		names = append(names, id.String())
	}
	if more := len(ids) - maxJobNames; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
