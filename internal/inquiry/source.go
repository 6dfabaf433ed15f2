package inquiry

import (
	"context"
	"fmt"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/app"
)

// AwaitSource looks once a second until the controller of a source has acted on a request, and returns the revision that it offers then.
func (q *Inquirer) AwaitSource(ctx context.Context, source *unstructured.Unstructured, request string) (string, error) {
	what := fmt.Sprintf("%s %s/%s", source.GetKind(), source.GetNamespace(), source.GetName())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := q.reader.Get(ctx, client.ObjectKeyFromObject(source), source)
		switch {
		case ctx.Err() != nil:
			return "", &app.Error{Code: exitTimeRanOut, Err: fmt.Errorf("%s did not act on the request, and the time ran out: does a controller for it run?", what)}
		case err != nil:
			return "", failed("get "+what, source.GetKind(), err)
		}
		if handled, _, _ := unstructured.NestedString(source.Object, "status", "lastHandledReconcileAt"); handled == request {
			if done, err := fetched(source, what); done {
				revision, _, _ := unstructured.NestedString(source.Object, "status", "artifact", "revision")
				return revision, err
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// fetched tells whether a source is done with its request, and what it failed with.
func fetched(source *unstructured.Unstructured, what string) (bool, error) {
	conditions, _, _ := unstructured.NestedSlice(source.Object, "status", "conditions")
	for _, entry := range conditions {
		c, ok := entry.(map[string]any)
		if !ok || c["type"] != fluxmeta.ReadyCondition {
			continue
		}
		switch c["status"] {
		case "True":
			return true, nil
		case "False":
			return true, &app.Error{Code: exitFailed, Err: fmt.Errorf("%s can't be fetched: %v; the Kustomization was not asked for", what, c["message"])}
		}
	}
	return false, nil
}

// Suspended names the Kustomizations of a namespace whose spec.suspend is as it is asked for; of all when the namespace is empty.
func (q *Inquirer) Suspended(ctx context.Context, namespace string, suspended bool) ([]client.ObjectKey, error) {
	all, err := q.kustomizations(ctx, namespace)
	var keys []client.ObjectKey
	for i := range all {
		if all[i].Spec.Suspend == suspended && all[i].DeletionTimestamp == nil {
			keys = append(keys, client.ObjectKeyFromObject(&all[i]))
		}
	}
	return keys, err
}
