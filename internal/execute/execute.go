// Package execute is the only package that writes or deletes managed objects.
//
// It carries out what was decided elsewhere: it applies the objects of a build, stage by stage, and sends the deletions of
// a plan. It never waits: a stage that is not in force yet, or an object that is still on its way out, is reported
// as pending, and the caller comes back. It decides nothing about what may go.
package execute

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/jsondiff"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// Executor writes to the cluster with the rights of its client.
type Executor struct {
	// Client must read from and write to the API server itself.
	Client client.Client
	// Concurrency is the number of dry-runs that one stage sends at the same time.
	Concurrency int
	// CustomStageKinds are applied before the last stage.
	CustomStageKinds map[schema.GroupKind]struct{}
	// OverrideManagers are field managers whose fields are taken over, and taken away where the manifest lacks them.
	OverrideManagers []string
	// MigrateAPIVersion rewrites the API version of all managed fields to the manifest's before an object is applied.
	MigrateAPIVersion bool
}

// ApplyRequest is what to apply, and for whom.
type ApplyRequest struct {
	// Owner is the name and namespace of the Kustomization.
	Owner client.ObjectKey
	// Objects of the build, with owner labels. They are not changed.
	Objects []*unstructured.Unstructured
	// Force recreates objects whose immutable fields changed.
	Force bool
	// Back is true when an older revision is brought back: what can't go back is left as it is, and the rest is applied.
	Back bool
	// Ignore are fields that others may change.
	Ignore []jsondiff.IgnoreRule
	// HaveRun are Jobs that are not created if they are not there.
	HaveRun object.Set
	// Compare makes a preview compare a manifest with its object where the client may not dry-run it: the rights of who looks need
	// not be those of who applies.
	Compare bool
	// Settled are the objects that an apply before this one found to be as they are wanted, with the same settings; it is kept up to
	// date. Nil means that each object has its dry-run.
	Settled Settled
	// Fence is asked before a write when some time has passed since the last answer. An error ends the apply: somebody
	// else has taken over.
	Fence func(context.Context) error
}

// ApplyResult is what an apply did. It is valid together with an error, too.
type ApplyResult struct {
	// Changes are the objects that were written, in order, as "Kind/namespace/name created" or "... configured".
	Changes []string
	// Pending are objects that can't be applied, or waited for, yet; the apply has to be repeated. Empty when all
	// objects are applied.
	Pending []string
	// LeftAsIs are the objects that can't go back, with the reason.
	LeftAsIs []Left
	// TakenOver are the objects whose owner labels named another Kustomization when they were read.
	TakenOver []object.ID
	// Filled are the lists that are left to others, though the manifest has them empty.
	Filled []Filled
	// Jobs are the UIDs of the Jobs that were made of the manifests in the request, now or by an earlier apply.
	Jobs map[object.ID]types.UID
}

// Done tells whether every object was applied.
func (r ApplyResult) Done() bool { return len(r.Pending) == 0 }

// Apply applies the objects stage by stage, with a dry-run of the whole stage, but for what is settled, before its first write. It returns early,
// with the rest pending, when a stage is not in force yet; it returns every error of the stage that failed.
func (e *Executor) Apply(ctx context.Context, req ApplyRequest) (ApplyResult, error) {
	var result ApplyResult
	f := &fence{ask: req.Fence}
	stages := e.stages(req.Objects)
	for i, stage := range stages {
		err := e.applyStage(ctx, req, stage, f, &result)
		if err != nil && f.err == nil {
			err = e.withLater(ctx, req, stages[i:], err)
		}
		if err != nil || !result.Done() {
			return result, err
		}
	}
	return result, nil
}

// withLater adds to the error of a stage what would be refused in those after it, as far as that can be told before they are reached:
// a person who mends a revision wants to know everything that is wrong with it.
func (e *Executor) withLater(ctx context.Context, req ApplyRequest, stages []stage, first error) error {
	if len(stages) == 1 || unanswered(first) {
		return first
	}
	effects, err := e.preview(ctx, req, stages)
	if err != nil {
		return first // who does not answer says nothing about the other objects either
	}
	failures := []error{first}
	for _, effect := range effects[len(stages[0].objects):] {
		if effect.Act == Refuse {
			failures = append(failures, effect.Err)
		}
	}
	return join(failures)
}

// applyStage applies one stage and adds to the result.
func (e *Executor) applyStage(ctx context.Context, req ApplyRequest, stage stage, f *fence, result *ApplyResult) error {
	live, err := e.read(ctx, stage.objects)
	if err != nil {
		return err
	}
	result.TakenOver = append(result.TakenOver, live.ofOthers(req.Owner)...)
	ready := make([]*unstructured.Unstructured, 0, len(stage.objects))
	for _, obj := range stage.objects {
		if l := live[object.IDOf(obj)]; l != nil && l.GetDeletionTimestamp() != nil && !observe.IsSkipped(l) {
			result.Pending = append(result.Pending, object.IDOf(obj).String()+" is being deleted")
			continue
		}
		if live[object.IDOf(obj)] == nil && req.HaveRun.Has(object.IDOf(obj)) {
			continue
		}
		ready = append(ready, obj.DeepCopy())
	}
	req, left := e.leaveFilled(req, ready, live)
	result.Filled = append(result.Filled, left...)
	if req.Back {
		ready = e.withoutForwardOnly(ctx, req, ready, live, result)
	}
	jobs := &madeJobs{}
	open, now := req.Settled.without(ready, live)
	changes, err := e.manager(live, f, jobs).ApplyAll(ctx, open, e.applyOptions(req))
	result.noteJobs(jobs, changes, live)
	e.noteLeft(ctx, req, ready, changes, live, result)
	if f.err != nil {
		return f.err
	}
	if err != nil {
		return e.explain(ctx, req, ready, live, err, result)
	}
	req.Settled.note(changes, now)
	for _, entry := range changes.Entries {
		if entry.Action == ssa.CreatedAction || entry.Action == ssa.ConfiguredAction {
			result.Changes = append(result.Changes, entry.String())
		}
	}
	if stage.inForce != nil {
		result.Pending = append(result.Pending, stage.inForce(ctx, e, ready)...)
	}
	return nil
}

// read fetches each object. One that can't be read fails the apply: what is not known must not be written over.
func (e *Executor) read(ctx context.Context, objects []*unstructured.Unstructured) (liveObjects, error) {
	var mu sync.Mutex
	var failures []error
	live := make(liveObjects, len(objects))
	group := errgroup.Group{}
	group.SetLimit(max(1, e.Concurrency))
	for _, obj := range objects {
		group.Go(func() error {
			got := &unstructured.Unstructured{}
			got.SetGroupVersionKind(obj.GroupVersionKind())
			err := e.Client.Get(ctx, client.ObjectKeyFromObject(obj), got)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				live[object.IDOf(obj)] = got
			case meta.IsNoMatchError(err):
				failures = append(failures, noKind(obj))
			case e.lacksNamespace(obj):
				failures = append(failures, fmt.Errorf("%s namespace not specified: set metadata.namespace, or spec.targetNamespace of the Kustomization", object.IDOf(obj)))
			case !apierrors.IsNotFound(err):
				failures = append(failures, fmt.Errorf("%s read failed: %w", object.IDOf(obj), err))
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no error; failures has them all
	return live, join(failures)
}

// lacksNamespace tells whether an object has no namespace though its kind needs one.
func (e *Executor) lacksNamespace(obj *unstructured.Unstructured) bool {
	if obj.GetNamespace() != "" {
		return false
	}
	namespaced, err := e.Client.IsObjectNamespaced(obj)
	return err == nil && namespaced
}

// Unserved returns an error for each object of a kind that the cluster does not serve and that no definition among the
// objects brings. None of them can be created, so that nobody has to remember them.
func Unserved(objects []*unstructured.Unstructured, mapper meta.RESTMapper) error {
	brought := map[schema.GroupKind]bool{}
	for _, obj := range objects {
		if obj.GetKind() == "CustomResourceDefinition" {
			brought[definedBy(obj)] = true
		}
	}
	var failures []error
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		if brought[gvk.GroupKind()] {
			continue
		}
		if _, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			failures = append(failures, noKind(obj))
		}
	}
	return join(failures)
}

func noKind(obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	return fmt.Errorf("%s: the cluster serves no kind %s in %s: check apiVersion and kind, or apply its CustomResourceDefinition first",
		object.IDOf(obj), gvk.Kind, gvk.GroupVersion())
}

// manager applies with what was read, so that its own reads can't fail unnoticed.
func (e *Executor) manager(live liveObjects, f *fence, jobs *madeJobs) *ssa.ResourceManager {
	m := ssa.NewResourceManager(&primedClient{Client: e.Client, live: live, fence: f, jobs: jobs}, nil, ssa.Owner{
		Field: v1.ApplyManager,
		Group: v1.GroupVersion.Group,
	})
	m.SetConcurrency(e.Concurrency)
	return m
}

func (e *Executor) applyOptions(req ApplyRequest) ssa.ApplyOptions {
	opts := ssa.DefaultApplyOptions()
	opts.CustomStageKinds = e.CustomStageKinds
	opts.MigrateAPIVersion = e.MigrateAPIVersion
	opts.DriftIgnoreRules = req.Ignore
	opts.ExclusionSelector = exclusions()
	opts.IfNotPresentSelector = ifNotPresent()
	opts.Cleanup = cleanup(e.OverrideManagers)
	return opts
}

// explain turns the first error of a stage into all of them: a person who fixes a revision wants to know everything
// that is wrong with it. Objects that may be recreated are, if their fault is that they can't be changed in place. They are not
// while something else of the stage is refused: what is deleted then would not come back before that is mended.
func (e *Executor) explain(ctx context.Context, req ApplyRequest, objects []*unstructured.Unstructured, live liveObjects, first error, result *ApplyResult) error {
	manager := e.manager(live, nil, nil)
	var failures []error
	var unchangeable []*unstructured.Unstructured
	nowhere := homeless{}
	for _, obj := range objects {
		_, _, _, err := manager.Diff(ctx, obj.DeepCopy(), ssa.DiffOptions{
			Exclusions: exclusions(), IfNotPresentSelector: ifNotPresent(), DriftIgnoreRules: req.Ignore,
		})
		if err == nil || nowhere.takes(obj, err) {
			continue
		}
		if transport := (*url.Error)(nil); errors.As(err, &transport) {
			return described(err, obj) // who does not answer says nothing about the other objects either
		}
		if err := e.mayRecreate(ctx, req.Owner, req.Force, obj, live[object.IDOf(obj)], err); err != nil {
			failures = append(failures, err)
			continue
		}
		unchangeable = append(unchangeable, obj)
	}
	if failures = append(failures, nowhere.errors()...); len(failures) > 0 {
		return join(failures)
	}
	for _, obj := range unchangeable {
		pending, err := e.makeRoom(ctx, obj, live[object.IDOf(obj)])
		if err != nil {
			failures = append(failures, err)
			continue
		}
		result.Pending = append(result.Pending, pending)
	}
	switch {
	case len(failures) > 0:
		return join(failures)
	case len(unchangeable) > 0:
		return nil
	}
	return first
}

// liveObjects are the objects of a stage as they were read.
type liveObjects map[object.ID]*unstructured.Unstructured

// ofOthers are the objects whose owner labels name another Kustomization, in any order.
func (l liveObjects) ofOthers(owner client.ObjectKey) []object.ID {
	var ids []object.ID
	for id, obj := range l {
		name, namespace := obj.GetLabels()[v1.OwnerNameLabel], obj.GetLabels()[v1.OwnerNamespaceLabel]
		if name != "" && (name != owner.Name || namespace != owner.Namespace) {
			ids = append(ids, id)
		}
	}
	return ids
}

// primedClient answers reads of objects that were read before from what was read.
type primedClient struct {
	client.Client
	live  liveObjects
	fence *fence
	jobs  *madeJobs
}

// Get returns the object as it was read, or NotFound if it was not there.
func (c *primedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	gvk := u.GroupVersionKind()
	id := object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: key.Namespace, Name: key.Name}
	if live, ok := c.live[id]; ok && live != nil {
		live.DeepCopyInto(u)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

// maxErrors bounds the errors in one message; a condition has to stay readable and storable.
const maxErrors = 10

func join(errs []error) error {
	if len(errs) > maxErrors {
		more := len(errs) - maxErrors
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more errors", more))
	}
	return errors.Join(errs...)
}

func exclusions() map[string]string {
	return map[string]string{
		v1.ControlPrefix + "reconcile": "disabled",
		v1.ControlPrefix + "ssa":       "Ignore",
	}
}

func ifNotPresent() map[string]string {
	return map[string]string{v1.ControlPrefix + "ssa": "IfNotPresent"}
}

// cleanup takes over what other tools left on the object, as Flux does. "ssa: Merge" on the object opts out of it.
func cleanup(overridden []string) ssa.ApplyCleanupOptions {
	managers := append(bothOf("kubectl"),
		ssa.FieldManager{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
		ssa.FieldManager{Name: v1.ApplyManager, OperationType: metav1.ManagedFieldsOperationUpdate})
	for _, name := range overridden {
		managers = append(managers, bothOf(name)...)
	}
	return ssa.ApplyCleanupOptions{
		Annotations: []string{
			"kubectl.kubernetes.io/last-applied-configuration",
			"kustomize.toolkit.fluxcd.io/checksum",
			"fluxcd.io/sync-checksum",
		},
		Labels:        []string{"fluxcd.io/sync-gc-mark"},
		FieldManagers: managers,
		Exclusions:    map[string]string{v1.ControlPrefix + "ssa": "Merge"},
	}
}

// bothOf is a field manager by whichever way it writes.
func bothOf(name string) []ssa.FieldManager {
	return []ssa.FieldManager{
		{Name: name, OperationType: metav1.ManagedFieldsOperationApply}, {Name: name, OperationType: metav1.ManagedFieldsOperationUpdate},
	}
}

// SetOwnerLabels labels the objects as managed by the Kustomization.
func SetOwnerLabels(objects []*unstructured.Unstructured, owner client.ObjectKey) {
	ssa.NewResourceManager(nil, nil, ssa.Owner{Group: v1.GroupVersion.Group}).
		SetOwnerLabels(objects, owner.Name, owner.Namespace)
}

// isForced tells whether the object itself asks to be recreated.
func isForced(obj *unstructured.Unstructured) bool {
	return obj != nil && ssautils.AnyInMetadata(obj, map[string]string{v1.ControlPrefix + "force": "enabled"})
}
