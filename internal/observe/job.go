package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// jobController is who speaks for Kubernetes about Jobs in events, and jobCompleted the reason by which it says that one is complete.
const (
	jobController = "job-controller"
	jobCompleted  = "Completed"
)

// jobFailures are the reasons by which it says that a Job failed for good.
var jobFailures = []string{batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded, batchv1.JobReasonPodFailurePolicy,
	batchv1.JobReasonMaxFailedIndexesExceeded, batchv1.JobReasonFailedIndexes}

// Run tells of a Job whether it is there, and whether it is complete or failed. Another Job of that name tells nothing.
func (o *Observer) Run(ctx context.Context, run plan.Run) plan.Run {
	if run.UID == "" {
		return run
	}
	job := &batchv1.Job{}
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: run.ID.Namespace, Name: run.ID.Name}, job)
	switch {
	case IsAbsent(err), err == nil && job.UID != run.UID:
		run.Seen = plan.Absent
		return run
	case err != nil:
		return run // it is looked at again
	}
	run.Seen = plan.Present
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			run.Completed = c.LastTransitionTime.Time
		}
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			run.Failed = c.Reason + ": " + c.Message
		}
	}
	if job.DeletionTimestamp != nil {
		run.Deleted = job.DeletionTimestamp.Time
	}
	return run
}

// NamespaceUID returns the UID of a Namespace, and so on which cluster, and in which of the Namespaces that had that name, what is in it
// is. It is empty where there is none.
func (o *Observer) NamespaceUID(ctx context.Context, name string) (types.UID, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := o.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case IsAbsent(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read Namespace/%s: %w", name, err)
	}
	return namespace.UID, nil
}

// RunSaid adds what Kubernetes said, in events, of the end of a Job that is gone: with a short time to live nobody gets to see the Job
// itself. What is said of another Job of that name tells nothing.
func (o *Observer) RunSaid(ctx context.Context, run plan.Run) plan.Run {
	list := &corev1.EventList{}
	about := fields.Set{"involvedObject.uid": string(run.UID)}
	if err := o.Reader.List(ctx, list, client.InNamespace(run.ID.Namespace), client.MatchingFieldsSelector{Selector: about.AsSelector()}); err != nil {
		run.Unheard = err.Error()
		return run // then nobody saw it
	}
	for _, e := range list.Items {
		switch {
		case e.InvolvedObject.UID != run.UID || e.Source.Component != jobController:
		case e.Reason == jobCompleted:
			run.Completed = eventTime(e)
		case e.Type == corev1.EventTypeWarning && slices.Contains(jobFailures, e.Reason):
			run.Failed = e.Reason + ": " + e.Message
		}
	}
	return run
}

// eventTime is when an event happened last.
func eventTime(e corev1.Event) time.Time {
	if e.LastTimestamp.IsZero() {
		return e.CreationTimestamp.Time
	}
	return e.LastTimestamp.Time
}
