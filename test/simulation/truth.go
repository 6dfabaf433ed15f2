package simulation

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

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
	// uses are by the running and startable things that name an object, past by the revisions in some history.
	uses, past uses
	// revisions has what a ControllerRevision names, also after it is gone.
	revisions map[object.ID][]object.ID
	// pausedAt is the step at which a Deployment was last paused.
	pausedAt int64
	// healthy is when a workload was first seen to run a template as it should.
	healthy map[object.ID]map[string]moment
	// jumpedBack is the step at which the clock last went back.
	jumpedBack int64
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
	// digests has what each digest that was shown to a person stands for.
	digests map[string]string
	// recovery is what is known about rollbacks.
	recovery recovery
	// writes are the writes of controllers of the kind under test.
	writes int
}

// uses counts users by object; lastFree is the last step at which there was none, lastUsed the last one at which there was one.
type uses struct {
	count              map[object.ID]int
	lastFree, lastUsed map[object.ID]int64
	// freed is when the last user ended.
	freed map[object.ID]time.Time
}

func newUses() uses {
	return uses{count: map[object.ID]int{}, lastFree: map[object.ID]int64{}, lastUsed: map[object.ID]int64{}, freed: map[object.ID]time.Time{}}
}

// change enters a write. What is named before and after it stays in use without a gap.
func (u uses) change(step int64, now time.Time, before, after []object.ID) {
	for _, id := range after {
		if u.count[id] == 0 {
			u.lastFree[id] = step
		}
		u.count[id]++
	}
	for _, id := range before {
		u.count[id]--
		u.lastUsed[id], u.freed[id] = step, now
	}
}

// moment is a step and its time.
type moment struct {
	step int64
	at   time.Time
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
		uses: newUses(), past: newUses(), revisions: map[object.ID][]object.ID{}, healthy: map[object.ID]map[string]moment{},
		created: map[types.UID]int64{}, relabelled: map[types.UID]int64{}, handmade: map[types.UID]bool{},
		stray: map[types.UID]bool{}, applied: map[types.UID]application{}, unkept: map[types.UID]int64{}, left: map[types.UID]bool{}, digests: map[string]string{}, recovery: newRecovery(), versions: map[string][]version{},
	}
}

// changed takes note of a write, and checks it if the controller made it.
func (w *world) changed(c modelcluster.Change) {
	id, t := c.ID(), &w.truth
	w.countUsers(c)
	for _, p := range w.processes {
		p.watches.note(c)
	}
	if c.After != nil {
		w.noteHealth(id, c.After)
	}
	k := w.workers[c.By]
	w.noteRecovery(k, c)
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
		if d.Name == name && (c.After == nil || isReady(w.decoded(c.After)) != isReady(w.decoded(c.Before)) ||
			w.decoded(c.After).Status.LastAppliedRevision != w.decoded(c.Before).Status.LastAppliedRevision) {
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

// countUsers keeps the number of users of each object.
func (w *world) countUsers(c modelcluster.Change) {
	t := &w.truth
	if c.Before == nil && c.After.GetKind() == "ControllerRevision" {
		t.revisions[object.IDOf(c.After)] = templateNeeds(c.After)
	}
	t.uses.change(w.step, w.now, t.needsOf(c.Before), t.needsOf(c.After))
	t.past.change(w.step, w.now, pastOf(c.Before), pastOf(c.After))
	if c.After != nil && isPaused(c.After) && !isPaused(c.Before) {
		t.pausedAt = w.step
	}
}

func isPaused(u *unstructured.Unstructured) bool {
	if u == nil || u.GetKind() != "Deployment" {
		return false
	}
	paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
	return paused
}

func isSuspended(u *unstructured.Unstructured) bool {
	suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	return suspended
}

// podPath is where a kind has the spec of its pods.
var podPath = map[string][]string{
	"Pod": {"spec"}, "Deployment": {"spec", "template", "spec"}, "ReplicaSet": {"spec", "template", "spec"},
	"StatefulSet": {"spec", "template", "spec"}, "DaemonSet": {"spec", "template", "spec"}, "Job": {"spec", "template", "spec"},
	"CronJob":            {"spec", "jobTemplate", "spec", "template", "spec"},
	"ControllerRevision": {"data", "spec", "template", "spec"},
}

func podSpecOf(u *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, podPath[u.GetKind()]...)
	content, _ := spec.(map[string]any)
	return content
}

func templateNeeds(u *unstructured.Unstructured) []object.ID {
	return modelcluster.Needs(podSpecOf(u), u.GetNamespace())
}

// needsOf lists what an object needs while it counts as a user: a pod that has not ended, a workload that exists, a
// ReplicaSet with replicas, a Job that has not ended, a StatefulSet also with the revisions that its pods come back at.
func (t *truth) needsOf(u *unstructured.Unstructured) []object.ID {
	if u == nil {
		return nil
	}
	switch u.GetKind() {
	case "Pod":
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		if phase == "Succeeded" || phase == "Failed" {
			return nil
		}
	case "ReplicaSet":
		want, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		have, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
		if set && want == 0 && have == 0 {
			return nil
		}
	case "Job":
		if hasCondition(u, "Complete") || hasCondition(u, "Failed") {
			return nil
		}
	case "StatefulSet":
		needs := templateNeeds(u)
		for _, field := range []string{"currentRevision", "updateRevision"} {
			name, _, _ := unstructured.NestedString(u.Object, "status", field)
			needs = append(needs, t.revisions[object.ID{Group: "apps", Kind: "ControllerRevision", Namespace: u.GetNamespace(), Name: name}]...)
		}
		return needs
	case "Deployment", "DaemonSet", "CronJob":
	default:
		return nil
	}
	return templateNeeds(u)
}

// pastOf lists what a revision needs that a workload can be rolled back to.
func pastOf(u *unstructured.Unstructured) []object.ID {
	if u == nil || (u.GetKind() != "ReplicaSet" && u.GetKind() != "ControllerRevision") {
		return nil
	}
	return templateNeeds(u)
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

// noteHealth keeps when a workload first ran its template as it should, by plain numbers.
func (w *world) noteHealth(id object.ID, u *unstructured.Unstructured) {
	if podPath[id.Kind] == nil || !runsAsItShould(u) {
		return
	}
	if w.truth.healthy[id] == nil {
		w.truth.healthy[id] = map[string]moment{}
	}
	if template := templateOf(u); w.truth.healthy[id][template].at.IsZero() {
		w.truth.healthy[id][template] = moment{w.step, w.now}
	}
}

func runsAsItShould(u *unstructured.Unstructured) bool {
	status, _ := u.Object["status"].(map[string]any)
	want, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !set {
		want = 1
	}
	observed := status["observedGeneration"] == u.GetGeneration()
	is := func(n int64, fields ...string) bool {
		for _, field := range fields {
			if status[field] != n {
				return false
			}
		}
		return observed
	}
	switch u.GetKind() {
	case "Deployment":
		return observed && isPaused(u) || is(want, "replicas", "updatedReplicas", "readyReplicas")
	case "StatefulSet":
		partition, _, _ := unstructured.NestedInt64(u.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
		updated, _ := status["updatedReplicas"].(int64)
		return is(want, "replicas", "readyReplicas") && updated >= want-partition
	case "DaemonSet":
		return is(int64(len(modelcluster.Nodes)), "desiredNumberScheduled", "updatedNumberScheduled", "numberReady")
	case "Job":
		return hasCondition(u, "Complete") || isSuspended(u)
	case "CronJob":
		return true
	}
	return false
}

// templateOf tells two templates of a workload apart.
func templateOf(u *unstructured.Unstructured) string {
	content, parts := podSpecOf(u), []string{}
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
		all = append(all, w.decoded(v.obj))
	}
	return all
}

func inventoryOf(ks *v1.Kustomization) inventory.Inventory {
	return inventory.Decode(ks.Status.Inventory)
}
