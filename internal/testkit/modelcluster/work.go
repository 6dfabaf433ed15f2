package modelcluster

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Controllers are the names of the model's own writers.
const (
	DeploymentController  = "deployment-controller"
	ReplicaSetController  = "replicaset-controller"
	StatefulSetController = "statefulset-controller"
	DaemonSetController   = "daemonset-controller"
	JobController         = "job-controller"
	CronJobController     = "cronjob-controller"
	Kubelet               = "kubelet"
	GarbageCollector      = "garbage-collector"
	NamespaceController   = "namespace-controller"
	DefinitionController  = "definition-controller"
)

// workers are the controllers, by the kind that they look after. Each makes at most one write and tells whether it made
// one.
var workers = []struct {
	kind schema.GroupKind
	sync func(*Cluster, *entry) bool
}{
	{deploymentKind, (*Cluster).syncDeployment},
	{replicaSetKind, (*Cluster).syncReplicaSet},
	{statefulSetKind, (*Cluster).syncStatefulSet},
	{daemonSetKind, (*Cluster).syncDaemonSet},
	{jobKind, (*Cluster).syncJob},
	{cronJobKind, (*Cluster).syncCronJob},
	{podKind, (*Cluster).syncPod},
	{namespaceKind, (*Cluster).syncNamespace},
	{definitionKind, (*Cluster).syncDefinition},
	{replicaSetKind, (*Cluster).collect},
	{podKind, (*Cluster).collect},
	{jobKind, (*Cluster).collect},
	{revisionKind, (*Cluster).collect},
	{secretKind, (*Cluster).collect},
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
