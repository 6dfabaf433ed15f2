package simulation

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// truth is what is the case, kept apart from what the controller believes and worked out in other ways. It is brought up to
// date with every write.
type truth struct {
	// users counts, for each object, the running and startable things that name it; lastFree is the last step at which
	// there was none, lastUsed the last one at which there was one.
	users              map[object.ID]int
	lastFree, lastUsed map[object.ID]int64
	// healthy is the last step at which a workload was seen to run a template as it should.
	healthy map[object.ID]map[string]int64
	// created and relabelled are the steps at which an object was made, and at which its owner labels last changed.
	created, relabelled map[types.UID]int64
	// handmade are objects whose owner labels a person wrote: if they say that they are ours, that is not our doing.
	handmade map[types.UID]bool
	// unkept is the step at which an object's own metadata ceased to keep it.
	unkept map[types.UID]int64
	// applied is the last apply of an object.
	applied map[types.UID]application
	// stray are objects that one process wrote while another one gave up on them: see checkApply.
	stray map[types.UID]bool
	// left are objects that a Kustomization left behind by right when it went.
	left map[types.UID]bool
	// versions are the states of each Kustomization, of late.
	versions map[string][]version
	// writes are the writes of controllers of the kind under test.
	writes int
}

// application is a write by server-side apply.
type application struct {
	step int64
	by   *process
}

// version is a Kustomization from a step on; nil after it is gone.
type version struct {
	step int64
	obj  *unstructured.Unstructured
}

func newTruth(*world) truth {
	return truth{
		users: map[object.ID]int{}, lastFree: map[object.ID]int64{}, lastUsed: map[object.ID]int64{}, healthy: map[object.ID]map[string]int64{},
		created: map[types.UID]int64{}, relabelled: map[types.UID]int64{}, handmade: map[types.UID]bool{},
		stray: map[types.UID]bool{}, applied: map[types.UID]application{}, unkept: map[types.UID]int64{}, left: map[types.UID]bool{}, versions: map[string][]version{},
	}
}

// changed takes note of a write, and checks it if the controller made it.
func (w *world) changed(c modelcluster.Change) {
	id, t := c.ID(), &w.truth
	w.countUsers(c)
	if c.After != nil {
		w.noteHealth(id, c.After)
	}
	k := w.workers[c.By]
	if c.Before != nil && c.After != nil && isKept(c.Before) && !isKept(c.After) {
		t.unkept[c.After.GetUID()] = w.step
	}
	switch {
	case c.Before == nil:
		t.created[c.After.GetUID()] = w.step
		t.relabelled[c.After.GetUID()] = w.step
		if k == nil && ownerOf(c.After) != "" && id.Kind != "Pod" {
			t.handmade[c.After.GetUID()] = true
		}
	case c.After != nil && ownerOf(c.Before) != ownerOf(c.After):
		t.relabelled[c.After.GetUID()] = w.step
		t.handmade[c.After.GetUID()] = k == nil
	}
	if id.Kind == v1.KustomizationKind {
		t.versions[id.Name] = append(t.versions[id.Name], version{w.step, c.After})
		if n := len(t.versions[id.Name]); n > 400 {
			t.versions[id.Name] = append([]version(nil), t.versions[id.Name][n-200:]...)
		}
		w.announce(id.Name, c)
	}
	if k != nil {
		w.sayStatus(c)
		t.writes++
		w.checkWrite(k, c)
	}
}

// sayStatus adds what a write changed in a status to the history.
func (w *world) sayStatus(c modelcluster.Change) {
	if !w.options.Trace || c.Before == nil || c.After == nil {
		return
	}
	before, _ := c.Before.Object["status"].(map[string]any)
	after, _ := c.After.Object["status"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(after)) {
		if field != "history" && !reflect.DeepEqual(before[field], after[field]) {
			w.say("    status.%s: %v, was %v", field, after[field], before[field])
		}
	}
}

// announce wakes those whom a change of a Kustomization concerns: itself if a person changed it, and its dependents when it
// is ready or gone.
func (w *world) announce(name string, c modelcluster.Change) {
	if w.workers[c.By] == nil {
		w.wake(name)
		return
	}
	for _, other := range w.names {
		if other != name {
			w.wakeDependent(other, name, c)
		}
	}
}

func (w *world) wakeDependent(other, name string, c modelcluster.Change) {
	ks := w.kustomization(other)
	if ks == nil || c.Before == nil {
		return
	}
	for _, d := range ks.Spec.DependsOn {
		if d.Name == name && (c.After == nil || isReady(decoded(c.After)) != isReady(decoded(c.Before)) ||
			decoded(c.After).Status.LastAppliedRevision != decoded(c.Before).Status.LastAppliedRevision) {
			w.wake(other)
		}
	}
}

// ownerOf is the Kustomization that an object's labels name, in the form namespace/name.
func ownerOf(u *unstructured.Unstructured) string {
	labels := u.GetLabels()
	if labels[v1.OwnerNameLabel] == "" && labels[v1.OwnerNamespaceLabel] == "" {
		return ""
	}
	return labels[v1.OwnerNamespaceLabel] + "/" + labels[v1.OwnerNameLabel]
}

// countUsers keeps the number of users of each object. What is named before and after a write stays in use without a gap.
func (w *world) countUsers(c modelcluster.Change) {
	t := &w.truth
	before, after := needsOf(c.Before), needsOf(c.After)
	for _, id := range after {
		if t.users[id] == 0 {
			t.lastFree[id] = w.step
		}
		t.users[id]++
	}
	for _, id := range before {
		t.users[id]--
		t.lastUsed[id] = w.step
	}
}

// needsOf lists what an object needs while it counts as a user: a pod that has not ended, a workload that exists, a
// ReplicaSet with replicas, a Job that has not ended.
func needsOf(u *unstructured.Unstructured) []object.ID {
	if u == nil {
		return nil
	}
	path := []string{"spec", "template", "spec"}
	switch u.GetKind() {
	case "Pod":
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		if phase == "Succeeded" || phase == "Failed" {
			return nil
		}
		path = []string{"spec"}
	case "Deployment":
	case "ReplicaSet":
		want, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		have, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
		if set && want == 0 && have == 0 {
			return nil
		}
	case "Job":
		if hasCondition(u, "Complete") {
			return nil
		}
	default:
		return nil
	}
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	content, _ := spec.(map[string]any)
	return modelcluster.Needs(content, u.GetNamespace())
}

func hasCondition(u *unstructured.Unstructured, kind string) bool {
	status, _ := u.Object["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		if c, ok := item.(map[string]any); ok && c["type"] == kind && c["status"] == "True" {
			return true
		}
	}
	return false
}

// noteHealth keeps when a workload last ran its template as it should, by plain numbers.
func (w *world) noteHealth(id object.ID, u *unstructured.Unstructured) {
	switch id.Kind {
	case "Deployment":
		status, _ := u.Object["status"].(map[string]any)
		want, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		if !set {
			want = 1
		}
		if status["observedGeneration"] != u.GetGeneration() || status["replicas"] != want ||
			status["updatedReplicas"] != want || status["readyReplicas"] != want {
			return
		}
	case "Job":
		if !hasCondition(u, "Complete") {
			return
		}
	default:
		return
	}
	if w.truth.healthy[id] == nil {
		w.truth.healthy[id] = map[string]int64{}
	}
	w.truth.healthy[id][templateOf(u)] = w.step
}

// templateOf tells two templates of a workload apart.
func templateOf(u *unstructured.Unstructured) string {
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec")
	content, _ := spec.(map[string]any)
	parts := []string{}
	if containers, ok := content["containers"].([]any); ok {
		for _, item := range containers {
			c, _ := item.(map[string]any)
			image, _ := c["image"].(string)
			parts = append(parts, image)
		}
	}
	for _, id := range modelcluster.Needs(content, u.GetNamespace()) {
		parts = append(parts, id.String())
	}
	return strings.Join(parts, " ")
}

// since returns the states of a Kustomization that held at a step or after it; nil stands for its absence.
func (w *world) since(name string, step int64) []*v1.Kustomization {
	versions := w.truth.versions[name]
	i := len(versions) - 1
	for i > 0 && versions[i].step > step {
		i--
	}
	var all []*v1.Kustomization
	for _, v := range versions[max(i, 0):] {
		all = append(all, decoded(v.obj))
	}
	return all
}

func inventoryOf(ks *v1.Kustomization) inventory.Inventory {
	return inventory.Decode(ks.Status.Inventory)
}
