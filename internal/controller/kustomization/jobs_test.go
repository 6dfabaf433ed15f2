package kustomization

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/target"
)

var migrate = object.ID{Group: "batch", Kind: "Job", Namespace: "shop", Name: "migrate"}

// jobServer has one Job, or none any more, and what Kubernetes said of it.
type jobServer struct {
	job    *batchv1.Job
	events []corev1.Event
	fault  error
	// mute is why events can't be listed with the rights that look for users. With those of the account they never can.
	mute error
	// cluster is another one than the first, and unplaced why a Namespace can't be read.
	cluster  string
	unplaced error
}

// account reads with the rights of an account that may do no more than it needs for its Jobs.
func (s *jobServer) account() *observe.Observer {
	users := s.observer().Reader.(client.WithWatch)
	return &observe.Observer{Reader: interceptor.NewClient(users, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("events is forbidden")
		},
	})}
}

func (s *jobServer) observer() *observe.Observer {
	return &observe.Observer{Reader: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			if namespace, ok := obj.(*metav1.PartialObjectMetadata); ok {
				namespace.UID = types.UID(cmp.Or(s.cluster, "here") + "/" + key.Name)
				return s.unplaced
			}
			if s.fault != nil {
				return s.fault
			}
			if s.job == nil {
				return apierrors.NewNotFound(schema.GroupResource{Group: "batch", Resource: "jobs"}, key.Name)
			}
			s.job.DeepCopyInto(obj.(*batchv1.Job))
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*corev1.EventList).Items = s.events
			return s.mute
		},
	})}
}

// says makes the server say how the Job with a UID ended.
func (s *jobServer) says(uid types.UID, kind, reason string, at time.Time) {
	s.events = append(s.events, corev1.Event{InvolvedObject: corev1.ObjectReference{UID: uid}, Type: kind, Reason: reason,
		Source: corev1.EventSource{Component: "job-controller"}, LastTimestamp: metav1.NewTime(at)})
}

// jobPass is a pass over a build with a Job that is deleted at once after it ended, and that an earlier pass applied.
func jobPass(s *jobServer) *pass {
	p := passOn(newKustomization())
	p.Observer = s.account()
	p.reached = &target.Target{Observer: p.Observer, Users: s.observer()}
	p.rollout = v1.RolloutStatus{Phase: v1.PhaseVerifying}
	p.built = &build.Result{Digest: "sha256:d", Objects: []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "migrate", "namespace": "shop"},
		"spec": map[string]any{"ttlSecondsAfterFinished": int64(0)}}}}}
	p.noteJobs(map[object.ID]types.UID{migrate: "ours"})
	return p
}

// jobVerdict is the one about a Job whose absence, or completion, counts as healthy.
func (p *pass) jobVerdict(t *testing.T, after time.Duration) health.Status {
	t.Helper()
	p.now = now.Add(after)
	checked := []health.Checked{{ID: migrate, Verdict: health.Verdict{Status: health.Current}}}
	p.weighRuns(checked, p.rememberRuns(t.Context()))
	return checked[0].Verdict.Status
}

// Absence alone does not say that a Job completed: for some seconds, and not past the deadline, the verdict waits for a word, however
// often it is looked at. A word that comes in that time counts, and so does one of a failure.
func TestJobThatIsGone(t *testing.T) {
	t.Run("nothing is said", func(t *testing.T) {
		p := jobPass(&jobServer{})
		for _, after := range []time.Duration{0, time.Millisecond, 14 * time.Second} {
			if got := p.jobVerdict(t, after); got != health.InProgress || !p.awaitsWord {
				t.Errorf("after %s: %s", after, got)
			}
		}
		if got := p.jobVerdict(t, 15*time.Second); got != health.Current || p.awaitsWord || len(p.rollout.CompletedJobs) != 0 {
			t.Errorf("in the end: %s, remembered %v", got, p.rollout.CompletedJobs)
		}
	})
	t.Run("the time is over", func(t *testing.T) {
		p := jobPass(&jobServer{})
		p.rollout.Deadline = &metav1.Time{Time: now.Add(2 * time.Second)}
		if got := p.jobVerdict(t, time.Second); got != health.InProgress {
			t.Errorf("before: %s", got)
		}
		if got := p.jobVerdict(t, 2*time.Second); got != health.Current {
			t.Errorf("after: %s", got)
		}
	})
	t.Run("the word comes late", func(t *testing.T) {
		s := &jobServer{}
		p := jobPass(s)
		_ = p.jobVerdict(t, 0)
		s.says("older", corev1.EventTypeNormal, "Completed", now)
		if got := p.jobVerdict(t, 5*time.Second); got != health.InProgress {
			t.Errorf("what is said of an older Job counts: %s", got)
		}
		s.says("ours", corev1.EventTypeNormal, "Completed", now)
		if got := p.jobVerdict(t, 10*time.Second); got != health.Current || len(p.rollout.CompletedJobs) != 1 {
			t.Errorf("%s, remembered %v", got, p.rollout.CompletedJobs)
		}
	})
	t.Run("it failed", func(t *testing.T) {
		s := &jobServer{}
		s.says("ours", corev1.EventTypeWarning, batchv1.JobReasonBackoffLimitExceeded, now)
		p := jobPass(s)
		if got := p.jobVerdict(t, 0); got != health.Failed || len(p.rollout.CompletedJobs) != 0 {
			t.Errorf("%s, remembered %v", got, p.rollout.CompletedJobs)
		}
		s.events = nil // they are kept for an hour
		p.rollout.Phase = v1.PhaseHeld
		if got := p.jobVerdict(t, 2*time.Hour); got != health.Failed {
			t.Errorf("later: %s", got)
		}
		p.noteJobs(map[object.ID]types.UID{migrate: "next"})
		s.job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "next"}}
		if got := p.jobVerdict(t, 2*time.Hour); got != health.Current {
			t.Errorf("the next run: %s", got)
		}
	})
	t.Run("it can't be read", func(t *testing.T) {
		s := &jobServer{fault: errors.New("connection refused")}
		p := jobPass(s)
		if got := p.jobVerdict(t, 0); got != health.InProgress {
			t.Errorf("%s", got)
		}
	})
}

// A pass that created a Job may end before it writes down that the Job has run. The next apply of the same manifest does not create it
// again, if Kubernetes says that this very Job completed.
func TestHaveRunRecalls(t *testing.T) {
	tests := map[string]struct {
		change func(*pass, *jobServer)
		want   bool
	}{
		"completed":              {func(_ *pass, s *jobServer) { s.says("ours", corev1.EventTypeNormal, "Completed", now) }, true},
		"nothing is said":        {func(*pass, *jobServer) {}, false},
		"failed":                 {func(_ *pass, s *jobServer) { s.says("ours", corev1.EventTypeWarning, "BackoffLimitExceeded", now) }, false},
		"an older one completed": {func(_ *pass, s *jobServer) { s.says("older", corev1.EventTypeNormal, "Completed", now) }, false},
		"another manifest": {func(p *pass, s *jobServer) {
			s.says("ours", corev1.EventTypeNormal, "Completed", now)
			p.built.Objects[0].Object["spec"].(map[string]any)["backoffLimit"] = int64(1)
		}, false},
		"another process": {func(p *pass, s *jobServer) {
			s.says("ours", corev1.EventTypeNormal, "Completed", now)
			p.mem.jobs = nil
		}, false},
		"long before its time": {func(p *pass, s *jobServer) {
			p.built.Objects[0].Object["spec"].(map[string]any)["ttlSecondsAfterFinished"] = int64(3600)
			p.noteJobs(map[object.ID]types.UID{migrate: "ours"})
			s.says("ours", corev1.EventTypeNormal, "Completed", now)
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &jobServer{}
			p := jobPass(s)
			p.rollout.Phase = v1.PhaseApplying
			p.rollout.CompletedJobs = []v1.CompletedJob{{ID: "shop_other_batch_Job", Digest: "sha256:o", Expires: metav1.NewTime(now)}}
			tt.change(p, s)
			if got, err := p.haveRun(t.Context()); err != nil || got.Has(migrate) != tt.want {
				t.Errorf("has run: %v (%v)", got, err)
			}
			if !hasCompleted(p, "shop_other_batch_Job") {
				t.Error("what is known of others is forgotten before the apply")
			}
		})
	}
}

func hasCompleted(p *pass, id string) bool {
	for _, job := range p.rollout.CompletedJobs {
		if job.ID == id {
			return true
		}
	}
	return false
}

// A Job that ran on one cluster has not run on another, or in a Namespace that was made anew. Where it ran may be unknown for a moment,
// in which nothing is applied and nothing is forgotten, or for good: then it is run again, and that is said.
func TestJobsArePlaced(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "shop", errors.New("no right to"))
	tests := map[string]struct {
		change             func(*jobServer)
		want, fault, after bool
	}{
		"here":               {change: func(*jobServer) {}, want: true, after: true},
		"on another cluster": {change: func(s *jobServer) { s.cluster = "there" }},
		"no answer":          {change: func(s *jobServer) { s.unplaced = errors.New("connection refused") }, fault: true, after: true},
		"no right":           {change: func(s *jobServer) { s.unplaced = forbidden }},
		"no Namespace": {change: func(s *jobServer) {
			s.unplaced = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &jobServer{}
			p := jobPass(s)
			s.says("ours", corev1.EventTypeNormal, "Completed", now)
			p.rememberRuns(t.Context())
			if !hasCompleted(p, migrate.Inventory()) {
				t.Fatal("it is not remembered")
			}
			s.events, p.mem.jobs = nil, nil
			tt.change(s)
			if got, err := p.haveRun(t.Context()); got.Has(migrate) != tt.want || (err != nil) != tt.fault {
				t.Errorf("has run: %v (%v)", got, err)
			}
			jobs := p.rememberRuns(t.Context())
			if got := hasCompleted(p, migrate.Inventory()); got != tt.after {
				t.Errorf("it is remembered after a look: %t", got)
			}
			p.rollout.Phase = v1.PhaseHealthy
			p.tellUnplaced(jobs)
			if said := len(p.events) == 1 && strings.Contains(p.events[0].message, "no right to"); said != (name == "no right") {
				t.Errorf("events %v", p.events)
			}
		})
	}
}

// A Namespace that can't be read holds nothing up where no Job of the build is remembered.
func TestUnplacedJobsThatNeverRan(t *testing.T) {
	p := jobPass(&jobServer{unplaced: errors.New("connection refused")})
	if got, err := p.haveRun(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("have run: %v (%v)", got, err)
	}
}

// A Job that went unseen is told of once, when the build becomes healthy with that, and so is why nobody could hear of its end.
func TestTellUnseen(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*pass, *jobServer)
		want   string
		also   string
	}{
		"nothing is said": {want: "Job/shop/migrate went before it was seen to complete"},
		"nothing can be read": {change: func(_ *pass, s *jobServer) { s.mute = errors.New("no right to list events") }, want: "Job/shop/migrate went before it was seen to complete",
			also: "; what Kubernetes said of its end can't be read: no right to list events"},
		"it completed":       {change: func(_ *pass, s *jobServer) { s.says("ours", corev1.EventTypeNormal, "Completed", now) }},
		"it was told before": {change: func(p *pass, _ *jobServer) { p.before.Status.Rollout = &v1.RolloutStatus{Phase: v1.PhaseHealthy} }},
		"it was given up": {change: func(p *pass, _ *jobServer) {
			p.before.Status.Rollout = &v1.RolloutStatus{Phase: v1.PhaseHealthy}
			p.rememberRuns(t.Context())
			p.now = p.now.Add(15 * time.Second)
		}, want: "Job/shop/migrate went before it was seen to complete"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &jobServer{}
			p := jobPass(s)
			if tt.change != nil {
				tt.change(p, s)
			}
			p.rollout.Phase = v1.PhaseHealthy
			for range 2 {
				p.tellUnseen(p.rememberRuns(t.Context()))
			}
			if len(p.events) != min(len(tt.want), 1) {
				t.Fatalf("events %v", p.events)
			}
			for _, e := range p.events {
				if !strings.HasPrefix(e.message, tt.want) || !strings.HasSuffix(e.message, cmp.Or(tt.also, "next apply")) {
					t.Errorf("it says %q", e.message)
				}
			}
		})
	}
}

// A build that is healthy without a Job is looked at until the Job ended: it may complete at any time, and has run then.
func TestJobsAreFollowed(t *testing.T) {
	ended := func(kind batchv1.JobConditionType) func(*pass, *jobServer) {
		return func(_ *pass, s *jobServer) {
			s.job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
		}
	}
	tests := map[string]struct {
		change     func(*pass, *jobServer)
		follows    bool
		remembered bool
	}{
		"runs":              {change: func(*pass, *jobServer) {}, follows: true},
		"complete":          {change: ended(batchv1.JobComplete), remembered: true},
		"failed":            {change: ended(batchv1.JobFailed)},
		"can't be read":     {change: func(_ *pass, s *jobServer) { s.fault = errors.New("connection refused") }, follows: true},
		"gone":              {change: func(_ *pass, s *jobServer) { s.job = nil }, follows: true},
		"gone and complete": {change: func(_ *pass, s *jobServer) { s.job = nil; s.says("ours", corev1.EventTypeNormal, "Completed", now) }, remembered: true},
		"gone for long": {change: func(p *pass, s *jobServer) {
			s.job = nil
			p.rememberRuns(t.Context())
			p.now = p.now.Add(15 * time.Second)
		}},
		"complete, nobody knows where": {change: func(p *pass, s *jobServer) {
			ended(batchv1.JobComplete)(p, s)
			s.unplaced = errors.New("connection refused")
		}, follows: true},
		"complete, nobody may know where": {change: func(p *pass, s *jobServer) {
			ended(batchv1.JobComplete)(p, s)
			s.unplaced = apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "shop", errors.New("no right to"))
		}},
		"another process": {change: func(p *pass, _ *jobServer) { p.mem.jobs = nil }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &jobServer{job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "ours"}}}
			p := jobPass(s)
			p.rollout = v1.RolloutStatus{Phase: v1.PhaseHealthy, Verified: true}
			tt.change(p, s)
			if out := p.verify(t.Context()); out != nil {
				t.Fatalf("the pass ended: %+v", out)
			}
			want := time.Duration(0)
			if tt.follows {
				want = laterLooks
			}
			if got := p.nextLook(); got != want || hasCompleted(p, migrate.Inventory()) != tt.remembered {
				t.Errorf("the next look is in %s; remembered are %v", got, p.rollout.CompletedJobs)
			}
		})
	}
}
