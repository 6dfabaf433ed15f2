package modelcluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// RevisionLabel tells which ControllerRevision a pod was made from: by its name for a StatefulSet, by its hash for a DaemonSet.
const RevisionLabel = "controller-revision-hash"

// Nodes are where a DaemonSet has its pods.
var Nodes = []string{"node-a", "node-b"}

// revision makes sure that the template of a set has its ControllerRevision. It returns nil after it made it.
func (c *Cluster) revision(by string, e *entry) *entry {
	name := e.obj.GetName() + "-" + e.templateHash()
	last := int64(0)
	for _, r := range c.owned(e.obj, revisionKind) {
		if r.obj.GetName() == name {
			return r
		}
		last = max(last, number(r.obj, 0, "revision"))
	}
	r := dependent(e.obj, revisionKind.WithVersion("v1"), name)
	template, _ := runtime.DeepCopyJSONValue(lookup(e.obj.Object, []string{"spec", "template"})).(map[string]any)
	template["$patch"] = "replace"
	r.Object["data"] = map[string]any{"spec": map[string]any{"template": template}}
	r.Object["revision"] = last + 1
	c.Create(by, r)
	return nil
}

// forgetRevisions deletes one ControllerRevision beyond the history, unless it is in use.
func (c *Cluster) forgetRevisions(by string, e *entry, used ...string) bool {
	const history = 2
	var idle []*entry
	for _, r := range c.owned(e.obj, revisionKind) {
		if !slices.ContainsFunc(used, func(name string) bool { return name != "" && strings.HasSuffix(r.obj.GetName(), name) }) {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *entry) int { return int(number(a.obj, 0, "revision") - number(b.obj, 0, "revision")) })
	return len(idle) > history && c.Delete(by, object.IDOf(idle[0].obj))
}

// fromRevision creates a pod of a set from one of its revisions.
func (c *Cluster) fromRevision(by string, e, revision *entry, name, label string) bool {
	pod := dependent(e.obj, podKind.WithVersion("v1"), name)
	template := []string{"data", "spec", "template"}
	labels, _ := runtime.DeepCopyJSONValue(lookup(revision.obj.Object, append(template, "metadata", "labels"))).(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels[RevisionLabel] = label
	if by == DaemonSetController {
		labels["pod-template-generation"] = strconv.FormatInt(e.obj.GetGeneration(), 10)
	}
	setNested(pod.Object, labels, "metadata", "labels")
	pod.Object["spec"] = runtime.DeepCopyJSONValue(lookup(revision.obj.Object, append(template, "spec")))
	return c.Create(by, pod)
}

// setState is what a StatefulSet has.
type setState struct {
	current, update *entry
	want, partition int64
	parallel        bool
	pods            map[string]*entry
}

// atCurrent counts the pods at the current revision that stay, as status does by the time at which a pod that went is made again.
func (s setState) atCurrent() int64 {
	n := int64(0)
	for _, pod := range s.pods {
		if pod.obj.GetDeletionTimestamp() == nil && pod.obj.GetLabels()[RevisionLabel] == s.current.obj.GetName() {
			n++
		}
	}
	return n
}

// syncStatefulSet keeps pods 0 to n-1, in order unless the set is parallel, and updates them from the last one down to the partition.
// A pod that is made again below the partition, or before the update reached it, comes from the current revision.
func (c *Cluster) syncStatefulSet(e *entry) bool {
	if e.obj.GetDeletionTimestamp() != nil {
		return false
	}
	update := c.revision(StatefulSetController, e)
	if update == nil {
		return true
	}
	s := setState{update: update, current: update, pods: map[string]*entry{}, want: number(e.obj, 1, "spec", "replicas"),
		partition: number(e.obj, 0, "spec", "updateStrategy", "rollingUpdate", "partition"),
		parallel:  lookup(e.obj.Object, []string{"spec", "podManagementPolicy"}) == "Parallel"}
	if name, _ := lookup(e.obj.Object, []string{"status", "currentRevision"}).(string); name != "" {
		if r := c.find(revisionKind, e.obj.GetNamespace(), name); r != nil {
			s.current = r
		}
	}
	for _, pod := range c.owned(e.obj, podKind) {
		s.pods[pod.obj.GetName()] = pod
	}
	if c.fillSet(e, s) {
		return true
	}
	return c.reportSet(e, s)
}

func ordinal(e *entry, i int64) string { return fmt.Sprintf("%s-%d", e.obj.GetName(), i) }

// fillSet makes, removes or updates one pod.
func (c *Cluster) fillSet(e *entry, s setState) bool {
	for i := range s.want {
		pod := s.pods[ordinal(e, i)]
		if pod == nil {
			from := s.update
			if i < s.partition || (s.partition == 0 && i < s.atCurrent()) {
				from = s.current
			}
			return c.fromRevision(StatefulSetController, e, from, ordinal(e, i), from.obj.GetName())
		}
		if (pod.obj.GetDeletionTimestamp() != nil || !isTrue(pod.obj, "Ready")) && !s.parallel {
			return false
		}
	}
	for i := int64(len(s.pods)) + s.want; i >= s.want; i-- {
		if pod := s.pods[ordinal(e, i)]; pod != nil {
			return c.Delete(StatefulSetController, object.IDOf(pod.obj))
		}
	}
	for i := s.want - 1; i >= s.partition; i-- {
		pod := s.pods[ordinal(e, i)]
		if pod.obj.GetDeletionTimestamp() != nil {
			return false
		}
		if pod.obj.GetLabels()[RevisionLabel] != s.update.obj.GetName() {
			return c.Delete(StatefulSetController, object.IDOf(pod.obj))
		}
		if !isTrue(pod.obj, "Ready") {
			return false
		}
	}
	return false
}

func (c *Cluster) reportSet(e *entry, s setState) bool {
	var ready, atCurrent, atUpdate int64
	used := []string{s.current.obj.GetName(), s.update.obj.GetName()}
	for _, pod := range s.pods {
		label := pod.obj.GetLabels()[RevisionLabel]
		used = append(used, label)
		if pod.obj.GetDeletionTimestamp() != nil {
			continue
		}
		if isTrue(pod.obj, "Ready") {
			ready++
		}
		if label == s.current.obj.GetName() {
			atCurrent++
		}
		if label == s.update.obj.GetName() {
			atUpdate++
		}
	}
	pods := int64(len(s.pods))
	if atUpdate == pods && ready == pods && pods == s.want {
		s.current, atCurrent = s.update, atUpdate
	}
	status := map[string]any{"observedGeneration": e.obj.GetGeneration(), "replicas": pods, "readyReplicas": ready, "availableReplicas": ready,
		"currentReplicas": atCurrent, "updatedReplicas": atUpdate,
		"currentRevision": s.current.obj.GetName(), "updateRevision": s.update.obj.GetName()}
	return c.report(StatefulSetController, e, status) || c.forgetRevisions(StatefulSetController, e, used...)
}

// syncDaemonSet keeps one pod on every node. An update takes away an old pod before it makes a new one, one at a time, and at
// once where the old one is not ready.
func (c *Cluster) syncDaemonSet(e *entry) bool {
	if e.obj.GetDeletionTimestamp() != nil {
		return false
	}
	update := c.revision(DaemonSetController, e)
	if update == nil {
		return true
	}
	hash := e.templateHash()
	var old []*entry
	var there, ready, updated int64
	used := []string{hash}
	for _, node := range Nodes {
		name := e.obj.GetName() + "-" + node
		pod := c.find(podKind, e.obj.GetNamespace(), name)
		if pod == nil {
			return c.fromRevision(DaemonSetController, e, update, name, hash)
		}
		if pod.obj.GetDeletionTimestamp() != nil {
			continue
		}
		there++
		if isTrue(pod.obj, "Ready") {
			ready++
		}
		label := pod.obj.GetLabels()[RevisionLabel]
		used = append(used, label)
		if label == hash {
			updated++
		} else {
			old = append(old, pod)
		}
	}
	desired := int64(len(Nodes))
	for _, pod := range old {
		if !isTrue(pod.obj, "Ready") || ready == desired {
			return c.Delete(DaemonSetController, object.IDOf(pod.obj))
		}
	}
	status := map[string]any{"observedGeneration": e.obj.GetGeneration(), "desiredNumberScheduled": desired, "currentNumberScheduled": there,
		"updatedNumberScheduled": updated, "numberReady": ready, "numberAvailable": ready}
	return c.report(DaemonSetController, e, status) || c.forgetRevisions(DaemonSetController, e, used...)
}
