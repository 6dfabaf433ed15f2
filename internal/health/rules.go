package health

import (
	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds with rules of their own.
var (
	pod         = schema.GroupKind{Kind: "Pod"}
	deployment  = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	replicaSet  = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	statefulSet = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	daemonSet   = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	job         = schema.GroupKind{Group: "batch", Kind: "Job"}
	claim       = schema.GroupKind{Kind: "PersistentVolumeClaim"}
)

// rules come before kstatus. A rule that has nothing to say leaves the object to kstatus. All of them may rely on the
// status being about the object's generation, if it names one at all.
var rules = map[schema.GroupKind]func(*unstructured.Unstructured, Options) (Verdict, bool){
	pod:         podRule,
	deployment:  deploymentRule,
	replicaSet:  zeroReplicas,
	statefulSet: statefulSetRule,
	daemonSet:   daemonSetRule,
	job:         jobRule,
	claim:       claimRule,
}

// podRule takes the clock out of kstatus' rule for pods that can't be scheduled: these have failed, but only once the
// scheduler had its time.
func podRule(u *unstructured.Unstructured, opts Options) (Verdict, bool) {
	c, found := condition(u, "PodScheduled")
	if text(u, "status", "phase") != "Pending" || !found || c.Status != "False" || c.Reason != "Unschedulable" {
		return Verdict{}, false
	}
	if opts.Now.IsZero() || opts.Now.Add(-kstatus.ScheduleWindow).Before(u.GetCreationTimestamp().Time) {
		return inProgress("Pod has not been scheduled"), true
	}
	return Verdict{Status: Failed, Message: "Pod could not be scheduled"}, true
}

// deploymentRule: a paused Deployment does what it was told to do, which is nothing, so it can't be waited for.
func deploymentRule(u *unstructured.Unstructured, opts Options) (Verdict, bool) {
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused {
		return current("Deployment is paused: its template is not rolled out"), true
	}
	return zeroReplicas(u, opts)
}

// zeroReplicas: a workload at zero replicas is ready as soon as no pods are left. kstatus asks a Deployment for
// conditions that say nothing about this case, and takes one for ready that its controller has not seen.
func zeroReplicas(u *unstructured.Unstructured, _ Options) (Verdict, bool) {
	if number(u, 1, "spec", "replicas") != 0 {
		return Verdict{}, false
	}
	if _, found, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); !found {
		return inProgress("%s has not been observed yet", u.GetKind()), true
	}
	if left := number(u, 0, "status", "replicas"); left > 0 {
		return inProgress("Pending termination: %d", left), true
	}
	return current("%s is scaled to zero", u.GetKind()), true
}

// statefulSetRule leaves partitions to kstatus: only the pods at and above the partition are meant to be updated, all
// pods have to be ready, and a partition at or above the replicas updates none, so that the revision is in place at
// once. With OnDelete nothing is updated until a person deletes pods; kstatus takes that for ready.
func statefulSetRule(u *unstructured.Unstructured, opts Options) (Verdict, bool) {
	if text(u, "spec", "updateStrategy", "type") == onDelete {
		return Verdict{}, false
	}
	return zeroReplicas(u, opts)
}

// daemonSetRule: with OnDelete the pods keep the old template until a person deletes them, so being up to date can't be
// waited for; being there and ready can. kstatus knows the strategy for StatefulSets only.
func daemonSetRule(u *unstructured.Unstructured, _ Options) (Verdict, bool) {
	if text(u, "spec", "updateStrategy", "type") != onDelete {
		return Verdict{}, false
	}
	desired := number(u, -1, "status", "desiredNumberScheduled")
	_, observed, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if desired < 0 || !observed {
		return inProgress("DaemonSet has not been observed yet"), true
	}
	for _, field := range []string{"currentNumberScheduled", "numberAvailable", "numberReady"} {
		if have := number(u, 0, "status", field); have < desired {
			return inProgress("%s: %d/%d", field, have, desired), true
		}
	}
	return current("DaemonSet is ready; pods are updated when they are deleted"), true
}

// onDelete is the update strategy that leaves pods alone. Source: apps/v1.
const onDelete = "OnDelete"

// jobRule: kstatus takes a Job for current as soon as it started. Here, as in Flux, it has to be complete or suspended.
func jobRule(u *unstructured.Unstructured, _ Options) (Verdict, bool) {
	if c, _ := condition(u, "Failed"); c.Status == "True" {
		return Verdict{Status: Failed, Message: "Job failed: " + c.Reason + ": " + c.Message}, true
	}
	if c, _ := condition(u, "Complete"); c.Status == "True" {
		return current("Job completed"), true
	}
	if suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); suspended {
		return current("Job is suspended"), true
	}
	return inProgress("Job is not finished"), true
}

// claimRule: a claim whose class waits for the first pod is not bound before there is one, which need not be soon.
func claimRule(u *unstructured.Unstructured, opts Options) (Verdict, bool) {
	if !opts.Unclaimed || text(u, "status", "phase") != "Pending" {
		return Verdict{}, false
	}
	return current("PersistentVolumeClaim is bound when its first pod is there"), true
}

// condition returns the status condition of a type.
func condition(u *unstructured.Unstructured, kind string) (kstatus.BasicCondition, bool) {
	obj, err := kstatus.GetObjectWithConditions(u.Object)
	if err != nil {
		// Malformed conditions are reported by kstatus, which reads them as well.
		return kstatus.BasicCondition{}, false
	}
	for _, c := range obj.Status.Conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return kstatus.BasicCondition{}, false
}

func number(u *unstructured.Unstructured, absent int64, fields ...string) int64 {
	n, found, err := unstructured.NestedInt64(u.Object, fields...)
	if !found || err != nil {
		return absent
	}
	return n
}

func text(u *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, fields...)
	return s
}
