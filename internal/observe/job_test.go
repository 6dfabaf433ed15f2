package observe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// A Job tells itself how it ended, or Kubernetes' own controller does in an event about that very Job. What is said of another Job of
// the name, by someone else, or in other words, proves nothing.
func TestRun(t *testing.T) {
	migrate := object.ID{Group: "batch", Kind: "Job", Namespace: "shop", Name: "migrate"}
	applied := plan.Run{ID: migrate, Digest: "d1", UID: "ours"}
	with := func(change func(*plan.Run)) plan.Run { r := applied; change(&r); return r }
	gone := apierrors.NewNotFound(resource, "migrate")
	complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}
	job := func(changes ...func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "ours"}}
		for _, change := range changes {
			change(j)
		}
		return j
	}
	isComplete := func(j *batchv1.Job) { j.Status.Conditions = []batchv1.JobCondition{complete} }
	hasFailed := func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "words"}}
	}
	said := func(reason string, changes ...func(*corev1.Event)) []corev1.Event {
		e := corev1.Event{InvolvedObject: corev1.ObjectReference{UID: "ours"}, Source: corev1.EventSource{Component: "job-controller"},
			Reason: reason, Message: "words", LastTimestamp: metav1.NewTime(now)}
		for _, change := range changes {
			change(&e)
		}
		return []corev1.Event{e}
	}
	asWarning := func(e *corev1.Event) { e.Type = corev1.EventTypeWarning }
	absent := with(func(r *plan.Run) { r.Seen = plan.Absent })
	done := with(func(r *plan.Run) { r.Seen, r.Completed = plan.Absent, now })
	tests := map[string]struct {
		run    plan.Run
		job    *batchv1.Job
		err    error
		events []corev1.Event
		lists  error
		want   plan.Run
	}{
		"runs":      {run: applied, job: job(), want: with(func(r *plan.Run) { r.Seen = plan.Present })},
		"complete":  {run: applied, job: job(isComplete), want: with(func(r *plan.Run) { r.Seen, r.Completed = plan.Present, now })},
		"failed":    {run: applied, job: job(hasFailed), want: with(func(r *plan.Run) { r.Seen, r.Failed = plan.Present, "BackoffLimitExceeded: words" })},
		"not ours":  {run: applied, job: job(isComplete, func(j *batchv1.Job) { j.UID = "anew" }), want: absent},
		"not known": {run: with(func(r *plan.Run) { r.UID = "" }), job: job(isComplete), want: with(func(r *plan.Run) { r.UID = "" })},
		"not read":  {run: applied, err: errors.New("connection refused"), events: said("Completed"), want: applied},
		"on its way out": {run: applied, job: job(isComplete, func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Minute)} }),
			want: with(func(r *plan.Run) { r.Seen, r.Completed, r.Deleted = plan.Present, now, now.Add(time.Minute) })},
		"gone":                       {run: applied, err: gone, want: absent},
		"gone, and complete":         {run: applied, err: gone, events: said("Completed"), want: done},
		"gone, complete, no time":    {run: applied, err: gone, events: said("Completed", func(e *corev1.Event) { e.LastTimestamp, e.CreationTimestamp = metav1.Time{}, metav1.NewTime(now) }), want: done},
		"gone, and failed":           {run: applied, err: gone, events: said("BackoffLimitExceeded", asWarning), want: with(func(r *plan.Run) { r.Seen, r.Failed = plan.Absent, "BackoffLimitExceeded: words" })},
		"gone, a pod was made":       {run: applied, err: gone, events: said("SuccessfulCreate"), want: absent},
		"gone, a pod was refused":    {run: applied, err: gone, events: said("FailedCreate", asWarning), want: absent},
		"gone, says someone":         {run: applied, err: gone, events: said("Completed", func(e *corev1.Event) { e.Source.Component = "someone" }), want: absent},
		"gone, of another":           {run: applied, err: gone, events: said("Completed", func(e *corev1.Event) { e.InvolvedObject.UID = "older" }), want: absent},
		"gone, events are not read":  {run: applied, err: gone, lists: errors.New("no right to"), want: with(func(r *plan.Run) { r.Seen, r.Unheard = plan.Absent, "no right to" })},
		"another, ours was complete": {run: applied, job: job(func(j *batchv1.Job) { j.UID = "anew" }), events: said("Completed"), want: done},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := &observe.Observer{Reader: interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
					if tt.job != nil {
						tt.job.DeepCopyInto(obj.(*batchv1.Job))
					}
					return tt.err
				},
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					list.(*corev1.EventList).Items = tt.events
					return tt.lists
				},
			})}
			got := o.Run(t.Context(), tt.run)
			if got.Seen == plan.Absent {
				got = o.RunSaid(t.Context(), got)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Where there is no Namespace, nothing ran; where it can't be read, nobody knows.
func TestNamespaceUID(t *testing.T) {
	for name, tt := range map[string]struct {
		answer error
		want   types.UID
		fault  string
	}{
		"there":     {want: "uid of shop"},
		"not there": {answer: apierrors.NewNotFound(resource, "shop")},
		"not read":  {answer: errors.New("connection refused"), fault: "read Namespace/shop: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observe.Observer{Reader: interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
					obj.SetUID(types.UID("uid of " + key.Name))
					return tt.answer
				},
			})}
			got, err := o.NamespaceUID(t.Context(), "shop")
			if said := fmt.Sprint(err); got != tt.want || (err != nil) != (tt.fault != "") || err != nil && said != tt.fault {
				t.Errorf("%q (%v)", got, err)
			}
		})
	}
}
