// Package calm keeps out of the log what is no fault.
package calm

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// afterConflict is how soon a reconciliation is repeated that was overtaken.
const afterConflict = time.Second

// Of wraps a reconciler, so that what is no fault is not logged as one. A reconciliation that is cut short since the process ends is
// made again by the next one, and one that was overtaken by another writer starts over from what is there now.
func Of(r reconcile.Reconciler) reconcile.Reconciler { return calm{r} }

type calm struct{ reconcile.Reconciler }

// Reconcile implements reconcile.Reconciler.
func (c calm) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	result, err := c.Reconciler.Reconcile(ctx, req)
	switch {
	case err != nil && ctx.Err() != nil:
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: afterConflict}, nil
	}
	return result, err
}
