package calm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-gitops/holdfast/internal/controller/calm"
)

// The end of the process and a lost race are no faults; everything else is, and a result without one is left as it is.
func TestOf(t *testing.T) {
	conflict := fmt.Errorf("write status: %w", apierrors.NewConflict(schema.GroupResource{}, "app", errors.New("modified")))
	for name, tt := range map[string]struct {
		err     error
		ended   bool
		want    bool
		requeue bool
	}{
		"nothing":                      {},
		"a fault":                      {err: errors.New("boom"), want: true},
		"cancelled by something else":  {err: context.Canceled, want: true},
		"the process ends":             {err: fmt.Errorf("read: %w", context.Canceled), ended: true},
		"a fault as the process ends":  {err: errors.New("connection closed"), ended: true},
		"a conflict":                   {err: conflict, requeue: true},
		"a conflict beside a fault":    {err: errors.Join(errors.New("boom"), conflict), requeue: true},
		"it ends, and nothing happens": {ended: true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if tt.ended {
			cancel()
		}
		r := calm.Of(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, tt.err
		}))
		result, err := r.Reconcile(ctx, reconcile.Request{})
		cancel()
		if (err != nil) != tt.want || (result.RequeueAfter > 0) != tt.requeue {
			t.Errorf("%s: %v, again after %s", name, err, result.RequeueAfter)
		}
	}
}
