package observe

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// jobCompleted is the reason of the event by which Kubernetes' own Job controller says that a Job is complete.
const jobCompleted = "Completed"

// Job tells whether a Job is there, and when it was complete. One that is gone was complete if Kubernetes said so in an event since
// the given time: with a short time to live nobody gets to see the Job itself.
func (o *Observer) Job(ctx context.Context, id object.ID, since time.Time) (seen plan.Presence, completed time.Time) {
	job := &batchv1.Job{}
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, job)
	switch {
	case IsAbsent(err):
		return plan.Absent, o.saidCompleted(ctx, id, since)
	case err != nil:
		return plan.Unknown, time.Time{} // it is looked at again
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && job.DeletionTimestamp == nil {
			completed = c.LastTransitionTime.Time
		}
	}
	return plan.Present, completed
}

// saidCompleted is the time of the last event that says so; zero when there is none, or none can be read.
func (o *Observer) saidCompleted(ctx context.Context, id object.ID, since time.Time) time.Time {
	list := &corev1.EventList{}
	about := fields.Set{"involvedObject.kind": id.Kind, "involvedObject.name": id.Name, "reason": jobCompleted}
	err := o.Reader.List(ctx, list, client.InNamespace(id.Namespace), client.MatchingFieldsSelector{Selector: about.AsSelector()})
	if err != nil {
		return time.Time{} // then nobody saw it
	}
	var last time.Time
	for _, e := range list.Items {
		if at := e.LastTimestamp.Time; e.Source.Component == "job-controller" && !at.Before(since) && at.After(last) {
			last = at
		}
	}
	return last
}
