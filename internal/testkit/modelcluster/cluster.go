package modelcluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Cluster is the state of an API server. It is not safe for concurrent use: whoever drives it lets one request in at a time.
type Cluster struct {
	// Now is the clock of the server.
	Now func() time.Time
	// Changed is told of every write that changed something, after it took effect.
	Changed func(Change)
	// Deleting is told of every DELETE that is about to be accepted, before it takes effect.
	Deleting func(by string, obj *unstructured.Unstructured)
	// PageSize bounds the pages of lists, below what clients ask for.
	PageSize int
	// Full is true while no pod can be made: a quota is used up, say.
	Full bool

	kinds    map[schema.GroupKind]*kind
	objects  map[schema.GroupKind]*collection
	pages    map[string][]*entry
	version  int64
	uids     int64
	pageToks int64
	// idleAt is the version at which the controllers had nothing to do.
	idleAt int64
}

// Change is a write that took effect. Before is nil for a creation, After for an object that is gone. Neither may be
// changed.
type Change struct {
	By            string
	Before, After *unstructured.Unstructured
}

// ID is the identity of the object.
func (c Change) ID() object.ID {
	if c.After != nil {
		return object.IDOf(c.After)
	}
	return object.IDOf(c.Before)
}

// entry is an object as it is stored. It is never changed, only replaced.
type entry struct {
	obj *unstructured.Unstructured
	// owners has, for each manager of server-side apply, the fields that it applied.
	owners map[string]fields
	// typed is the object in the type that it was last read in.
	typed runtime.Object
	// hash of the pod template, once it was asked for.
	hash string
	// owner is the UID of its controller, once that was asked for.
	owner types.UID
	asked bool
}

// collection has the objects of one kind, sorted by namespace and name.
type collection struct{ sorted []*entry }

func compareKey(e *entry, key types.NamespacedName) int {
	return cmp.Or(cmp.Compare(e.obj.GetNamespace(), key.Namespace), cmp.Compare(e.obj.GetName(), key.Name))
}

func (l *collection) find(namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(l.sorted, types.NamespacedName{Namespace: namespace, Name: name}, compareKey)
}

// New returns an empty cluster.
func New(now func() time.Time) *Cluster {
	c := &Cluster{Now: now, PageSize: 500, kinds: map[schema.GroupKind]*kind{},
		objects: map[schema.GroupKind]*collection{}, pages: map[string][]*entry{}}
	for _, k := range builtin() {
		c.kinds[k.GroupKind()] = k
	}
	return c
}

func (c *Cluster) find(gk schema.GroupKind, namespace, name string) *entry {
	list := c.objects[gk]
	if list == nil {
		return nil
	}
	if i, ok := list.find(namespace, name); ok {
		return list.sorted[i]
	}
	return nil
}

// Get returns an object as it is stored, nil if there is none. It must not be changed.
func (c *Cluster) Get(id object.ID) *unstructured.Unstructured {
	if e := c.find(id.GroupKind(), id.Namespace, id.Name); e != nil {
		return e.obj
	}
	return nil
}

// Each calls visit with every object of a kind, in order, as it is stored.
func (c *Cluster) Each(gk schema.GroupKind, visit func(*unstructured.Unstructured)) {
	if list := c.objects[gk]; list != nil {
		for _, e := range slices.Clone(list.sorted) {
			visit(e.obj)
		}
	}
}

// All calls visit with every object of every kind, in a fixed order.
func (c *Cluster) All(visit func(*unstructured.Unstructured)) {
	var kinds []schema.GroupKind
	for gk := range c.objects {
		kinds = append(kinds, gk)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
	for _, gk := range kinds {
		c.Each(gk, visit)
	}
}

// store puts an object in the place of another one; either may be nil.
func (c *Cluster) store(by string, before, after *entry) {
	at := cmp.Or(after, before).obj
	gk := at.GroupVersionKind().GroupKind()
	list := c.objects[gk]
	if list == nil {
		list = &collection{}
		c.objects[gk] = list
	}
	i, found := list.find(at.GetNamespace(), at.GetName())
	c.version++
	change := Change{By: by}
	switch {
	case after == nil:
		list.sorted = slices.Delete(list.sorted, i, i+1)
		change.Before = before.obj
	case found:
		after.obj.SetResourceVersion(strconv.FormatInt(c.version, 10))
		list.sorted[i] = after
		change.Before, change.After = before.obj, after.obj
	default:
		after.obj.SetResourceVersion(strconv.FormatInt(c.version, 10))
		list.sorted = slices.Insert(list.sorted, i, after)
		change.After = after.obj
	}
	if gk == definitionKind && after != nil {
		c.learn(after.obj)
	}
	if c.Changed != nil {
		c.Changed(change)
	}
}

// create stores a new object after the checks that a server makes.
func (c *Cluster) create(by string, k *kind, obj *unstructured.Unstructured, owners map[string]fields, dryRun bool) (*unstructured.Unstructured, error) {
	if k.namespaced {
		ns := c.find(namespaceKind, "", obj.GetNamespace())
		switch {
		case ns == nil:
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, obj.GetNamespace())
		case ns.obj.GetDeletionTimestamp() != nil:
			err := apierrors.NewForbidden(k.resource(), obj.GetName(), fmt.Errorf("namespace %s is being terminated", obj.GetNamespace()))
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: "NamespaceTerminating"})
			return nil, err
		}
	}
	if k.definition != "" && c.find(definitionKind, "", k.definition).obj.GetDeletionTimestamp() != nil {
		return nil, apierrors.NewMethodNotSupported(k.resource(), "create")
	}
	if c.Full && k.GroupKind() == podKind {
		return nil, apierrors.NewForbidden(k.resource(), obj.GetName(), errors.New("exceeded quota: pods"))
	}
	obj = obj.DeepCopy()
	unstructured.RemoveNestedField(obj.Object, "status")
	obj.SetCreationTimestamp(metav1.NewTime(c.Now()))
	if k.generation {
		obj.SetGeneration(1)
	}
	if k.Kind == "Job" {
		setNested(obj.Object, obj.GetNamespace()+"-"+obj.GetName(), "spec", "template", "metadata", "labels", "job-name")
		setNested(obj.Object, obj.GetNamespace()+"-"+obj.GetName(), "spec", "selector", "matchLabels", "job-name")
	}
	if dryRun {
		return obj, nil
	}
	c.uids++
	obj.SetUID(types.UID(fmt.Sprintf("uid-%d", c.uids)))
	c.store(by, nil, &entry{obj: obj, owners: owners})
	return obj, nil
}

// update stores a changed object. A change of anything beside metadata and status is a new generation; no change is no
// write. An object whose last finalizer goes while it is being deleted is gone.
func (c *Cluster) update(by string, k *kind, before, after *entry, dryRun bool) (*unstructured.Unstructured, error) {
	if same(before.obj.Object, after.obj.Object) {
		if !dryRun && !sameOwners(before.owners, after.owners) {
			before.owners = after.owners // nothing that a client could see
		}
		return before.obj, nil
	}
	if err := immutable(k, before.obj, after.obj); err != nil {
		return nil, err
	}
	if k.generation && specChanged(before.obj.Object, after.obj.Object) {
		after.obj.SetGeneration(before.obj.GetGeneration() + 1)
	}
	if dryRun {
		return after.obj, nil
	}
	if after.obj.GetDeletionTimestamp() != nil && len(after.obj.GetFinalizers()) == 0 && !c.isHeld(k, after.obj) {
		c.store(by, before, nil)
		return after.obj, nil
	}
	c.store(by, before, after)
	return after.obj, nil
}

// isHeld tells whether something else than a finalizer keeps a deleted object: the kubelet, or what is in it.
func (c *Cluster) isHeld(k *kind, obj *unstructured.Unstructured) bool {
	switch k.GroupKind() {
	case podKind, namespaceKind, definitionKind:
		return obj.GetAnnotations()[doneAnnotation] == ""
	}
	return false
}

// doneAnnotation is set by the model's own controllers on what they have finished deleting.
const doneAnnotation = "model/done"

func specChanged(before, after map[string]any) bool {
	for _, m := range []map[string]any{before, after} {
		for key := range m {
			if key != "metadata" && key != "status" && !same(before[key], after[key]) {
				return true
			}
		}
	}
	return false
}

// immutable refuses changes that real kinds refuse.
func immutable(k *kind, before, after *unstructured.Unstructured) error {
	var path []string
	switch k.GroupKind() {
	case jobKind:
		path = []string{"spec", "template"}
	case deploymentKind, replicaSetKind, statefulSetKind, daemonSetKind:
		path = []string{"spec", "selector"}
	default:
		return nil
	}
	if same(lookup(before.Object, path), lookup(after.Object, path)) {
		return nil
	}
	return apierrors.NewInvalid(k.GroupKind(), after.GetName(), nil)
}

// Preconditions bind a deletion to an object that was seen.
type Preconditions struct {
	UID             *types.UID
	ResourceVersion *string
}

// remove deletes an object, or marks it as being deleted while finalizers or controllers hold it.
func (c *Cluster) remove(by string, k *kind, namespace, name string, pre Preconditions) error {
	e := c.find(k.GroupKind(), namespace, name)
	if e == nil {
		return apierrors.NewNotFound(k.resource(), name)
	}
	switch {
	case pre.UID != nil && *pre.UID != e.obj.GetUID():
		return apierrors.NewConflict(k.resource(), name, fmt.Errorf("precondition failed: UID %s, not %s", e.obj.GetUID(), *pre.UID))
	case pre.ResourceVersion != nil && *pre.ResourceVersion != e.obj.GetResourceVersion():
		return apierrors.NewConflict(k.resource(), name, fmt.Errorf("precondition failed: resourceVersion %s, not %s", e.obj.GetResourceVersion(), *pre.ResourceVersion))
	}
	if c.Deleting != nil {
		c.Deleting(by, e.obj)
	}
	if e.obj.GetDeletionTimestamp() != nil {
		return nil
	}
	if len(e.obj.GetFinalizers()) == 0 && !c.isHeld(k, e.obj) {
		c.store(by, e, nil)
		return nil
	}
	marked := e.obj.DeepCopy()
	now := metav1.NewTime(c.Now())
	marked.SetDeletionTimestamp(&now)
	if k.generation {
		marked.SetGeneration(marked.GetGeneration() + 1)
	}
	c.store(by, e, &entry{obj: marked, owners: e.owners})
	return nil
}

// Create stores a new object for someone in the environment. It returns false where a server would refuse it.
func (c *Cluster) Create(by string, obj *unstructured.Unstructured) bool {
	k := c.kindOf(obj.GroupVersionKind().GroupKind())
	if k == nil || c.find(k.GroupKind(), obj.GetNamespace(), obj.GetName()) != nil {
		return false
	}
	_, err := c.create(by, k, obj, nil, false)
	return err == nil
}

// Edit changes an object for someone in the environment, who from then on owns the fields that differ. It returns false
// if there is no such object, nothing changed, or a server would refuse it.
func (c *Cluster) Edit(by string, id object.ID, change func(*unstructured.Unstructured)) bool {
	k, e := c.kinds[id.GroupKind()], c.find(id.GroupKind(), id.Namespace, id.Name)
	if e == nil {
		return false
	}
	after := &entry{obj: e.obj.DeepCopy(), owners: e.owners}
	change(after.obj)
	after.owners = disowned(e, after.obj)
	version := c.version
	_, err := c.update(by, k, e, after, false)
	return err == nil && c.version != version
}

// Delete deletes an object for someone in the environment. It returns false if there is none or it is on its way out.
func (c *Cluster) Delete(by string, id object.ID) bool {
	version := c.version
	k := c.kinds[id.GroupKind()]
	return k != nil && c.remove(by, k, id.Namespace, id.Name, Preconditions{}) == nil && c.version != version
}

// Version is the resourceVersion of the last write.
func (c *Cluster) Version() int64 { return c.version }

// Clone returns a cluster in the same state, which nobody watches. What happens to one does not happen to the other.
func (c *Cluster) Clone() *Cluster {
	next := &Cluster{Now: c.Now, PageSize: c.PageSize, Full: c.Full, kinds: maps.Clone(c.kinds), pages: map[string][]*entry{},
		objects: make(map[schema.GroupKind]*collection, len(c.objects)), version: c.version, uids: c.uids}
	for gk, list := range c.objects {
		next.objects[gk] = &collection{sorted: slices.Clone(list.sorted)}
	}
	return next
}
