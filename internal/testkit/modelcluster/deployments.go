package modelcluster

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// syncDeployment rolls a Deployment over, one write at a time: never fewer ready pods than wanted, one more at most.
func (c *Cluster) syncDeployment(e *entry) bool {
	d := e.obj
	if d.GetDeletionTimestamp() != nil {
		return false
	}
	want := number(d, 1, "spec", "replicas")
	name := d.GetName() + "-" + e.templateHash()
	var current *entry
	var old []*entry
	total, ready := int64(0), int64(0)
	for _, rs := range c.owned(d, replicaSetKind) {
		if rs.obj.GetName() == name {
			current = rs
		} else {
			old = append(old, rs)
		}
		total += number(rs.obj, 1, "spec", "replicas")
		ready += number(rs.obj, 0, "status", "readyReplicas")
	}
	paused, _ := lookup(d.Object, []string{"spec", "paused"}).(bool)
	last := int64(0)
	for _, rs := range old {
		last = max(last, rolloutNumber(rs))
	}
	switch {
	case paused:
		if c.scalePaused(current, old, want) {
			return true
		}
	case current != nil && rolloutNumber(current) <= last:
		return c.write(DeploymentController, current, func(obj map[string]any) {
			setNested(obj, strconv.FormatInt(last+1, 10), "metadata", "annotations", rolloutAnnotation)
		})
	case current == nil:
		rs := dependent(d, replicaSetKind.WithVersion("v1"), name)
		rs.SetAnnotations(map[string]string{rolloutAnnotation: strconv.FormatInt(last+1, 10)})
		replicas := int64(0)
		if total == 0 {
			replicas = want
		}
		rs.Object["spec"] = map[string]any{"replicas": replicas, "template": runtime.DeepCopyJSONValue(lookup(d.Object, []string{"spec", "template"}))}
		inherit(rs, d, []string{"spec", "selector"}, "spec", "selector")
		inherit(rs, d, []string{"spec", "template", "metadata", "labels"}, "metadata", "labels")
		return c.Create(DeploymentController, rs)
	case c.roll(current, old, want, total, ready):
		return true
	}
	return c.reportDeployment(e, current)
}

// inherit copies what is at a path of one object into another.
func inherit(into, from *unstructured.Unstructured, path []string, to ...string) {
	if value := lookup(from.Object, path); value != nil {
		setNested(into.Object, runtime.DeepCopyJSONValue(value), to...)
	}
}

// rolloutAnnotation counts the ReplicaSets of a Deployment, as kubectl rollout shows them.
const rolloutAnnotation = "deployment.kubernetes.io/revision"

func rolloutNumber(rs *entry) int64 {
	n, err := strconv.ParseInt(rs.obj.GetAnnotations()[rolloutAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// scalePaused scales a Deployment that rolls nothing out: its only active ReplicaSet, or else the newest one.
func (c *Cluster) scalePaused(current *entry, old []*entry, want int64) bool {
	all := old
	if current != nil {
		all = append([]*entry{current}, old...)
	}
	var target *entry
	active := 0
	for _, rs := range all {
		if number(rs.obj, 1, "spec", "replicas") > 0 {
			target = rs
			active++
		}
	}
	for _, rs := range all {
		if active == 0 && (target == nil || rolloutNumber(rs) > rolloutNumber(target)) {
			target = rs
		}
	}
	if target == nil || active > 1 || number(target.obj, 1, "spec", "replicas") == want {
		return false
	}
	return c.write(DeploymentController, target, func(obj map[string]any) { setNested(obj, want, "spec", "replicas") })
}

// roll takes one step of a rollout.
func (c *Cluster) roll(current *entry, old []*entry, want, total, ready int64) bool {
	scale := func(rs *entry, to int64) bool {
		return c.write(DeploymentController, rs, func(obj map[string]any) { setNested(obj, to, "spec", "replicas") })
	}
	have := number(current.obj, 1, "spec", "replicas")
	if total == have && have != want {
		return scale(current, want)
	}
	if have < want && total <= want {
		return scale(current, have+1)
	}
	for _, rs := range old {
		replicas := number(rs.obj, 1, "spec", "replicas")
		unready := replicas - number(rs.obj, 0, "status", "readyReplicas")
		if replicas > 0 && (unready > 0 || ready > want || want == 0) {
			return scale(rs, replicas-1)
		}
	}
	const history = 2
	var idle []*entry
	for _, rs := range old {
		if number(rs.obj, 1, "spec", "replicas") == 0 && number(rs.obj, 0, "status", "replicas") == 0 {
			idle = append(idle, rs)
		}
	}
	if len(idle) > history {
		return c.Delete(DeploymentController, object.IDOf(idle[0].obj))
	}
	return false
}

func (c *Cluster) reportDeployment(e, current *entry) bool {
	updated, ready, pods := int64(0), int64(0), int64(0)
	for _, rs := range c.owned(e.obj, replicaSetKind) {
		pods += number(rs.obj, 0, "status", "replicas")
		ready += number(rs.obj, 0, "status", "readyReplicas")
	}
	if current != nil {
		updated = number(current.obj, 0, "status", "replicas")
	}
	available := "False"
	if want := number(e.obj, 1, "spec", "replicas"); ready >= want {
		available = "True"
	}
	return c.report(DeploymentController, e, map[string]any{
		"observedGeneration": e.obj.GetGeneration(), "replicas": pods, "updatedReplicas": updated,
		"readyReplicas": ready, "availableReplicas": ready,
		"conditions": []any{map[string]any{"type": "Available", "status": available}},
	})
}

func (c *Cluster) syncReplicaSet(e *entry) bool {
	rs := e.obj
	if rs.GetDeletionTimestamp() != nil {
		return false
	}
	want, ready := number(rs, 1, "spec", "replicas"), int64(0)
	var pods []*entry
	taken := map[string]bool{}
	for _, pod := range c.owned(rs, podKind) {
		taken[pod.obj.GetName()] = true
		if pod.obj.GetDeletionTimestamp() != nil {
			continue
		}
		pods = append(pods, pod)
		if isTrue(pod.obj, "Ready") {
			ready++
		}
	}
	switch {
	case int64(len(pods)) < want:
		return c.Create(ReplicaSetController, podOf(rs, taken))
	case int64(len(pods)) > want:
		victim := pods[0]
		for _, pod := range pods {
			if !isTrue(pod.obj, "Ready") {
				victim = pod
			}
		}
		return c.Delete(ReplicaSetController, object.IDOf(victim.obj))
	}
	return c.report(ReplicaSetController, e, map[string]any{
		"observedGeneration": rs.GetGeneration(), "replicas": int64(len(pods)), "readyReplicas": ready,
	})
}
