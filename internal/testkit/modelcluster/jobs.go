package modelcluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

func isFinished(job *unstructured.Unstructured) bool {
	return isTrue(job, "Complete") || isTrue(job, "Failed")
}

func isSuspended(u *unstructured.Unstructured) bool {
	suspended, _ := lookup(u.Object, []string{"spec", "suspend"}).(bool)
	return suspended
}

// syncJob runs one pod until it ends, and none while the Job is suspended.
func (c *Cluster) syncJob(e *entry) bool {
	job := e.obj
	if job.GetDeletionTimestamp() != nil || isFinished(job) {
		return false
	}
	taken := map[string]bool{}
	var active *entry
	for _, pod := range c.owned(job, podKind) {
		taken[pod.obj.GetName()] = true
		switch phase := lookup(pod.obj.Object, []string{"status", "phase"}); {
		case phase == "Succeeded":
			return c.report(JobController, e, map[string]any{"succeeded": int64(1),
				"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}})
		case phase == "Failed":
			return c.report(JobController, e, map[string]any{"failed": int64(1),
				"conditions": []any{map[string]any{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}}})
		case pod.obj.GetDeletionTimestamp() == nil:
			active = pod
		}
	}
	switch {
	case isSuspended(job) && active != nil:
		return c.Delete(JobController, object.IDOf(active.obj))
	case isSuspended(job):
		return c.report(JobController, e, map[string]any{})
	case active == nil:
		return c.Create(JobController, podOf(job, taken))
	}
	return c.report(JobController, e, map[string]any{"active": int64(1)})
}

// Fire makes the Job of a CronJob whose time has come, unless it is suspended or the last one still runs. It returns false if it
// made none.
func (c *Cluster) Fire(id object.ID) bool {
	e := c.find(id.GroupKind(), id.Namespace, id.Name)
	if e == nil || e.obj.GetDeletionTimestamp() != nil || isSuspended(e.obj) {
		return false
	}
	for _, job := range c.owned(e.obj, jobKind) {
		if !isFinished(job.obj) {
			return false
		}
	}
	job := dependent(e.obj, jobKind.WithVersion("v1"), fmt.Sprintf("%s-%d", id.Name, c.version))
	job.Object["spec"] = runtime.DeepCopyJSONValue(lookup(e.obj.Object, []string{"spec", "jobTemplate", "spec"}))
	return c.Create(CronJobController, job)
}

// syncCronJob keeps one finished Job.
func (c *Cluster) syncCronJob(e *entry) bool {
	var finished []*entry
	for _, job := range c.owned(e.obj, jobKind) {
		if isFinished(job.obj) && job.obj.GetDeletionTimestamp() == nil {
			finished = append(finished, job)
		}
	}
	return len(finished) > 1 && c.Delete(CronJobController, object.IDOf(finished[0].obj))
}
