package modelcluster

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Controllers are the names of the model's own writers.
const (
	DeploymentController = "deployment-controller"
	ReplicaSetController = "replicaset-controller"
	JobController        = "job-controller"
	Kubelet              = "kubelet"
	GarbageCollector     = "garbage-collector"
	NamespaceController  = "namespace-controller"
	DefinitionController = "definition-controller"
)

// workers are the controllers, by the kind that they look after. Each makes at most one write and tells whether it made
// one.
var workers = []struct {
	kind schema.GroupKind
	sync func(*Cluster, *entry) bool
}{
	{deploymentKind, (*Cluster).syncDeployment},
	{replicaSetKind, (*Cluster).syncReplicaSet},
	{jobKind, (*Cluster).syncJob},
	{podKind, (*Cluster).syncPod},
	{namespaceKind, (*Cluster).syncNamespace},
	{definitionKind, (*Cluster).syncDefinition},
	{replicaSetKind, (*Cluster).collect},
	{podKind, (*Cluster).collect},
}

// Work lets one controller make one write. The number picks among those that have something to do, first the controller
// and then the object; it returns a description, empty if there was nothing to do.
func (c *Cluster) Work(pick uint64) string {
	if c.idleAt == c.version {
		return ""
	}
	for i := range workers {
		w := workers[(uint64(i)+pick)%uint64(len(workers))]
		list := c.objects[w.kind]
		if list == nil || len(list.sorted) == 0 {
			continue
		}
		objects := slices.Clone(list.sorted)
		for j := range objects {
			e := objects[(uint64(j)+pick>>8)%uint64(len(objects))]
			if w.sync(c, e) {
				return "controllers look after " + object.IDOf(e.obj).String()
			}
		}
	}
	c.idleAt = c.version
	return ""
}

// write changes an object as one of the controllers.
func (c *Cluster) write(by string, e *entry, change func(obj map[string]any)) bool {
	return c.Edit(by, object.IDOf(e.obj), func(u *unstructured.Unstructured) { change(u.Object) })
}

func number(obj *unstructured.Unstructured, otherwise int64, path ...string) int64 {
	if n, ok := lookup(obj.Object, path).(int64); ok {
		return n
	}
	return otherwise
}

func isTrue(obj *unstructured.Unstructured, kind string) bool {
	list, _ := lookup(obj.Object, []string{"status", "conditions"}).([]any)
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind && c["status"] == "True" {
			return true
		}
	}
	return false
}

// templateHash names what a pod template says.
func (e *entry) templateHash() string {
	if e.hash == "" {
		text, err := json.Marshal(lookup(e.obj.Object, []string{"spec", "template"}))
		if err != nil {
			panic(err) // JSON that was read can be written
		}
		sum := fnv.New32a()
		sum.Write(text)
		e.hash = rand.SafeEncodeString(fmt.Sprint(sum.Sum32()))
	}
	return e.hash
}

// owned lists the objects of a kind that an object controls.
func (c *Cluster) owned(owner *unstructured.Unstructured, gk schema.GroupKind) []*entry {
	var all []*entry
	if list := c.objects[gk]; list != nil {
		for _, e := range list.sorted {
			if e.controller() == owner.GetUID() {
				all = append(all, e)
			}
		}
	}
	return all
}

// controller is the UID of the object that controls an object.
func (e *entry) controller() types.UID {
	if !e.asked {
		e.asked = true
		if refs := e.obj.GetOwnerReferences(); len(refs) > 0 {
			e.owner = refs[0].UID
		}
	}
	return e.owner
}

// report sets the status of an object, if it says something else.
func (c *Cluster) report(by string, e *entry, status map[string]any) bool {
	if same(e.obj.Object["status"], status) {
		return false
	}
	return c.write(by, e, func(obj map[string]any) { obj["status"] = status })
}

// dependent returns a new object that the owner controls.
func dependent(owner *unstructured.Unstructured, gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(owner.GetNamespace())
	u.SetName(name)
	isController := true
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(),
		Name: owner.GetName(), UID: owner.GetUID(), Controller: &isController}})
	return u
}

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
	switch {
	case paused:
	case current == nil:
		rs := dependent(d, replicaSetKind.WithVersion("v1"), name)
		replicas := int64(0)
		if total == 0 {
			replicas = want
		}
		rs.Object["spec"] = map[string]any{"replicas": replicas, "template": runtime.DeepCopyJSONValue(lookup(d.Object, []string{"spec", "template"}))}
		return c.Create(DeploymentController, rs)
	case c.roll(current, old, want, total, ready):
		return true
	}
	return c.reportDeployment(e, current)
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

// podOf returns a new pod of a template, with a name that is free.
func podOf(owner *unstructured.Unstructured, taken map[string]bool) *unstructured.Unstructured {
	name := ""
	for i := 0; name == "" || taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", owner.GetName(), i)
	}
	pod := dependent(owner, podKind.WithVersion("v1"), name)
	pod.Object["spec"] = runtime.DeepCopyJSONValue(lookup(owner.Object, []string{"spec", "template", "spec"}))
	return pod
}

func (c *Cluster) syncJob(e *entry) bool {
	job := e.obj
	if job.GetDeletionTimestamp() != nil || isTrue(job, "Complete") {
		return false
	}
	taken, active := map[string]bool{}, 0
	for _, pod := range c.owned(job, podKind) {
		taken[pod.obj.GetName()] = true
		switch {
		case lookup(pod.obj.Object, []string{"status", "phase"}) == "Succeeded":
			return c.report(JobController, e, map[string]any{"succeeded": int64(1),
				"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}})
		case pod.obj.GetDeletionTimestamp() == nil:
			active++
		}
	}
	if active == 0 {
		return c.Create(JobController, podOf(job, taken))
	}
	return c.report(JobController, e, map[string]any{"active": int64(1)})
}

// syncPod starts a pod, lets it end, or takes it away. A pod starts when all that its spec names is there and its image can
// be pulled; an image whose tag is "broken" can't.
func (c *Cluster) syncPod(e *entry) bool {
	pod := e.obj
	if pod.GetDeletionTimestamp() != nil {
		return c.write(Kubelet, e, func(obj map[string]any) { setNested(obj, "true", "metadata", "annotations", doneAnnotation) })
	}
	status := map[string]any{"phase": "Pending"}
	spec, _ := pod.Object["spec"].(map[string]any)
	if lookup(pod.Object, []string{"status", "phase"}) == "Succeeded" || (isTrue(pod, "Ready") && !runsOnce(pod)) {
		return false // a container that runs needs its configuration no more, until it starts again
	}
	switch missing := c.missing(pod); {
	case isTrue(pod, "Ready"):
		status = map[string]any{"phase": "Succeeded"}
	case len(missing) > 0:
		status["reason"] = "CreateContainerConfigError: " + missing[0].String() + " not found"
	case strings.HasSuffix(imageOf(spec), ":broken"):
		status["reason"] = "ImagePullBackOff"
	default:
		status = map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	}
	return c.report(Kubelet, e, status)
}

func runsOnce(pod *unstructured.Unstructured) bool {
	refs := pod.GetOwnerReferences()
	return len(refs) > 0 && refs[0].Kind == "Job"
}

func imageOf(spec map[string]any) string {
	containers, _ := spec["containers"].([]any)
	for _, item := range containers {
		if c, ok := item.(map[string]any); ok {
			image, _ := c["image"].(string)
			return image
		}
	}
	return ""
}

// missing lists what a pod needs to start and lacks.
func (c *Cluster) missing(pod *unstructured.Unstructured) []object.ID {
	spec, _ := pod.Object["spec"].(map[string]any)
	var missing []object.ID
	for _, id := range Needs(spec, pod.GetNamespace()) {
		if c.find(id.GroupKind(), id.Namespace, id.Name) == nil {
			missing = append(missing, id)
		}
	}
	return missing
}

// Needs lists what a pod spec names: the few ways that the model's generators write, read in the plainest way.
func Needs(spec map[string]any, namespace string) []object.ID {
	var ids []object.ID
	add := func(kind string, name any) {
		if s, ok := name.(string); ok && s != "" {
			ids = append(ids, object.ID{Kind: kind, Namespace: namespace, Name: s})
		}
	}
	add("ServiceAccount", spec["serviceAccountName"])
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, item := range containers {
			container, _ := item.(map[string]any)
			froms, _ := container["envFrom"].([]any)
			for _, from := range froms {
				from, _ := from.(map[string]any)
				add("ConfigMap", lookup(from, []string{"configMapRef", "name"}))
				add("Secret", lookup(from, []string{"secretRef", "name"}))
			}
		}
	}
	volumes, _ := spec["volumes"].([]any)
	for _, item := range volumes {
		volume, _ := item.(map[string]any)
		add("ConfigMap", lookup(volume, []string{"configMap", "name"}))
		add("Secret", lookup(volume, []string{"secret", "secretName"}))
	}
	return ids
}

// collect deletes an object whose owner is gone.
func (c *Cluster) collect(e *entry) bool {
	if e.controller() == "" || e.obj.GetDeletionTimestamp() != nil {
		return false
	}
	refs := e.obj.GetOwnerReferences()
	gk := schema.FromAPIVersionAndKind(refs[0].APIVersion, refs[0].Kind).GroupKind()
	if owner := c.find(gk, e.obj.GetNamespace(), refs[0].Name); owner != nil && owner.obj.GetUID() == refs[0].UID {
		return false
	}
	return c.Delete(GarbageCollector, object.IDOf(e.obj))
}

// syncNamespace empties a namespace that is being deleted, and then lets it go.
func (c *Cluster) syncNamespace(e *entry) bool {
	if e.obj.GetDeletionTimestamp() == nil {
		return false
	}
	return c.empty(NamespaceController, e, func(u *unstructured.Unstructured) bool { return u.GetNamespace() == e.obj.GetName() })
}

// syncDefinition takes a definition into force, or empties and removes one that is being deleted.
func (c *Cluster) syncDefinition(e *entry) bool {
	if e.obj.GetDeletionTimestamp() == nil {
		return c.report(DefinitionController, e, map[string]any{
			"conditions": []any{map[string]any{"type": "Established", "status": "True"}}})
	}
	group := lookup(e.obj.Object, []string{"spec", "group"})
	kind := lookup(e.obj.Object, []string{"spec", "names", "kind"})
	return c.empty(DefinitionController, e, func(u *unstructured.Unstructured) bool {
		gvk := u.GroupVersionKind()
		return gvk.Group == group && gvk.Kind == kind
	})
}

// empty deletes one of the objects that are inside of another one; when none is left, that one goes.
func (c *Cluster) empty(by string, e *entry, inside func(*unstructured.Unstructured) bool) bool {
	var next []object.ID
	left := false
	c.All(func(u *unstructured.Unstructured) {
		if inside(u) {
			left = true
			if u.GetDeletionTimestamp() == nil {
				next = append(next, object.IDOf(u))
			}
		}
	})
	switch {
	case len(next) > 0:
		return c.Delete(by, next[0])
	case left:
		return false
	}
	return c.write(by, e, func(obj map[string]any) { setNested(obj, "true", "metadata", "annotations", doneAnnotation) })
}
