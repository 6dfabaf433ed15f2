package execute

import (
	"context"
	"errors"
	"fmt"

	"github.com/fluxcd/pkg/ssa"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Left is an object that stays as it is while an older revision is brought back.
type Left struct {
	ID  object.ID
	Why string
}

// String is the object and the reason, for people.
func (l Left) String() string { return l.ID.String() + ": " + l.Why }

// RunsOnce tells whether an object of this kind does its work when it is created. It is not run again by going back.
func RunsOnce(id object.ID) bool { return id.GroupKind().String() == "Job.batch" }

// onlyForward are the kinds whose data outlives a revision: going back with them could lose what was written since. They are
// created where they are missing.
var onlyForward = map[string]string{
	"PersistentVolumeClaim":                         "a claim is not taken back, and can't shrink",
	"CustomResourceDefinition.apiextensions.k8s.io": "a definition is not taken back, since fields that only the newer one has would be lost",
}

// withoutForwardOnly returns the objects of a stage that can go back, and notes the others with the reason. Those are what runs
// once, what holds data, and what the API server refuses to change: an immutable field is no reason to bring back nothing.
func (e *Executor) withoutForwardOnly(ctx context.Context, req ApplyRequest, objects []*unstructured.Unstructured, live liveObjects, result *ApplyResult) []*unstructured.Unstructured {
	manager := e.manager(live, nil, nil)
	var able []*unstructured.Unstructured
	for _, obj := range objects {
		id := object.IDOf(obj)
		if RunsOnce(id) {
			continue
		}
		diff, there := ssa.DiffOptions{Exclusions: exclusions(), IfNotPresentSelector: ifNotPresent(), DriftIgnoreRules: req.Ignore}, live[id] != nil
		change, _, _, err := manager.Diff(ctx, obj.DeepCopy(), diff)
		why := onlyForward[id.GroupKind().String()]
		switch {
		case !there:
			able = append(able, obj)
		case why != "":
			if err != nil || change.Action == ssa.ConfiguredAction {
				result.LeftAsIs = append(result.LeftAsIs, Left{ID: id, Why: why})
			}
		case apierrors.IsInvalid(err) && !req.Force && !isForced(obj) && !isForced(live[id]):
			result.LeftAsIs = append(result.LeftAsIs, Left{ID: id, Why: fmt.Sprintf("the API server refuses the change: %s", refusalWords(err))})
		default:
			able = append(able, obj)
		}
	}
	return able
}

// refusalWords are the words of a refusal without the object, which is named beside them.
func refusalWords(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
