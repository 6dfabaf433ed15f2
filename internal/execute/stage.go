package execute

import (
	"context"
	"sort"

	"github.com/fluxcd/pkg/ssa"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// stage is a set of objects that is applied before the next one is even dry-run, since the next one can't exist without
// it: custom resources without their definition, objects without their namespace, pods without their account.
type stage struct {
	objects []*unstructured.Unstructured
	// inForce returns the objects of the stage that the next stage still has to wait for; nil waits for none.
	inForce func(context.Context, *Executor, []*unstructured.Unstructured) []string
}

// accessKinds are applied before what runs under them. A quota and the defaults of a LimitRange belong together: with the quota
// alone, a pod that names no requests is refused.
var accessKinds = map[string]bool{
	"ServiceAccount": true, "Role": true, "RoleBinding": true, "ClusterRoleBinding": true,
	"ResourceQuota": true, "LimitRange": true,
}

// stages cuts the objects of a build into stages, each in apply order.
func (e *Executor) stages(objects []*unstructured.Unstructured) []stage {
	definitions := stage{inForce: pendingHealth}
	classes := stage{inForce: pendingHealth}
	custom := stage{inForce: pendingHealth}
	access, rest := stage{}, stage{}
	for _, obj := range objects {
		switch {
		case ssautils.IsClusterDefinition(obj):
			definitions.objects = append(definitions.objects, obj)
		case ssautils.IsClassDefinition(obj):
			classes.objects = append(classes.objects, obj)
		case ssautils.IsCustomStage(obj, e.CustomStageKinds):
			custom.objects = append(custom.objects, obj)
		case accessKinds[obj.GetKind()]:
			access.objects = append(access.objects, obj)
		default:
			rest.objects = append(rest.objects, obj)
		}
	}
	var stages []stage
	for _, s := range []stage{definitions, classes, custom, access, rest} {
		if len(s.objects) > 0 {
			sort.Sort(ssa.SortableUnstructureds(s.objects))
			stages = append(stages, s)
		}
	}
	return stages
}

// ApplyOrder returns the objects in the order in which Apply writes them.
func (e *Executor) ApplyOrder(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	ordered := make([]*unstructured.Unstructured, 0, len(objects))
	for _, s := range e.stages(objects) {
		ordered = append(ordered, s.objects...)
	}
	return ordered
}

// pendingHealth names the objects of a stage that are not in force yet: a definition that is not established, a
// namespace that is still terminating.
func pendingHealth(ctx context.Context, e *Executor, objects []*unstructured.Unstructured) []string {
	var pending []string
	for _, obj := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(obj.GroupVersionKind())
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
			pending = append(pending, object.IDOf(obj).String()+" can't be read: "+err.Error())
			continue
		}
		if v := health.Of(live); v.Status != health.Current {
			pending = append(pending, object.IDOf(obj).String()+" is "+string(v.Status))
		}
	}
	return pending
}
