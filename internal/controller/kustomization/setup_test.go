package kustomization

import (
	"context"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// The end of a Kustomization queues those that wait with their own deletion for it, at once, and no others; so does the end of
// its dependence.
func TestTheEndOfADependentIsTold(t *testing.T) {
	r := &Reconciler{Siblings: &observe.Observer{}, Client: interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			switch key.Name {
			case "leaving":
				obj.SetDeletionTimestamp(deletedAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
			case "gone":
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return nil
		},
	})}
	usage := &v1.Kustomization{}
	usage.Namespace, usage.Name = "shop", "usage"
	usage.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "leaving"}, {Name: "staying"}, {Name: "gone"}}
	free := usage.DeepCopy()
	free.Spec.DependsOn = nil
	for what, c := range map[string]struct {
		tell func(workqueue.TypedRateLimitingInterface[reconcile.Request])
		want int
	}{
		"gone": {func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e := (crevent.DeleteEvent{Object: usage}); dependenceEnded().Delete(e) {
				r.enqueueAwaiting().Delete(t.Context(), e, q)
			}
		}, 1},
		"depends no more": {func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e := (crevent.UpdateEvent{ObjectOld: usage, ObjectNew: free}); dependenceEnded().Update(e) {
				r.enqueueAwaiting().Update(t.Context(), e, q)
			}
		}, 1},
		"another change": {func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e := (crevent.UpdateEvent{ObjectOld: usage, ObjectNew: usage.DeepCopy()}); dependenceEnded().Update(e) {
				r.enqueueAwaiting().Update(t.Context(), e, q)
			}
		}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			c.tell(queue)
			if queue.Len() != c.want {
				t.Fatalf("%d are queued, want %d", queue.Len(), c.want)
			}
			if c.want == 0 {
				return
			}
			if got, _ := queue.Get(); got.Name != "leaving" || got.Namespace != "shop" {
				t.Errorf("%s is queued", got)
			}
		})
	}
}
