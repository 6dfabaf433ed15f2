package execute

import (
	"context"
	"sync"

	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// madeJobs are the Jobs that the API server made of a manifest. What is said later of a Job of that name may be about another one, so
// that only the UID tells whether this manifest has run.
type madeJobs struct {
	mu   sync.Mutex
	uids map[object.ID]types.UID
}

// note takes down the answer to an apply.
func (m *madeJobs) note(obj client.Object) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	id := object.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if m == nil || !RunsOnce(id) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uids == nil {
		m.uids = map[object.ID]types.UID{}
	}
	m.uids[id] = obj.GetUID()
}

// noteJobs adds the Jobs that were written, also those before an error, and the ones that are there as the manifest says.
func (r *ApplyResult) noteJobs(made *madeJobs, changes *ssa.ChangeSet, live liveObjects) {
	if r.Jobs == nil {
		r.Jobs = map[object.ID]types.UID{}
	}
	for id, uid := range made.uids {
		r.Jobs[id] = uid
	}
	if changes == nil {
		return
	}
	for _, entry := range changes.Entries {
		meta := entry.ObjMetadata
		id := object.ID{Group: meta.GroupKind.Group, Kind: meta.GroupKind.Kind, Namespace: meta.Namespace, Name: meta.Name}
		if there := live[id]; entry.Action == ssa.UnchangedAction && RunsOnce(id) && there != nil {
			r.Jobs[id] = there.GetUID()
		}
	}
}

// noteLeft adds the Jobs that were not written because they are there already (ssa: IfNotPresent). One that is not as the manifest
// says was made of another: a dry-run tells.
func (e *Executor) noteLeft(ctx context.Context, req ApplyRequest, objects []*unstructured.Unstructured, changes *ssa.ChangeSet, live liveObjects, result *ApplyResult) {
	if changes == nil {
		return
	}
	skipped := object.Set{}
	for _, entry := range changes.Entries {
		meta := entry.ObjMetadata
		if entry.Action == ssa.SkippedAction {
			skipped[object.ID{Group: meta.GroupKind.Group, Kind: meta.GroupKind.Kind, Namespace: meta.Namespace, Name: meta.Name}] = struct{}{}
		}
	}
	for _, obj := range objects {
		id := object.IDOf(obj)
		there := live[id]
		if there == nil || !RunsOnce(id) || !skipped.Has(id) {
			continue
		}
		entry, _, _, err := e.manager(live, nil, nil).Diff(ctx, obj.DeepCopy(), ssa.DiffOptions{Exclusions: exclusions(), DriftIgnoreRules: req.Ignore})
		if err == nil && entry.Action == ssa.UnchangedAction {
			result.Jobs[id] = there.GetUID()
		}
	}
}
