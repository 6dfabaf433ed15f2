package observe

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Check is an object whose health is asked for.
type Check struct {
	ID object.ID
	// Version is the API version to read it with.
	Version string
	// Desired is the object as it was applied; nil for one that is not part of the build.
	Desired *unstructured.Unstructured
	// Custom judges the object instead of the rules of its kind; nil for none.
	Custom func(*unstructured.Unstructured) health.Verdict
}

// Health judges each object by a fresh read. Objects whose live metadata takes them out of the apply are left out.
func (o *Observer) Health(ctx context.Context, checks []Check, now time.Time) []health.Checked {
	checked := make([]health.Checked, 0, len(checks))
	around := o.circumstances()
	for _, c := range checks {
		verdict, skip := around.judge(ctx, c, now)
		if !skip {
			checked = append(checked, health.Checked{ID: c.ID, Verdict: verdict})
		}
	}
	return checked
}

func (o *circumstances) judge(ctx context.Context, c Check, now time.Time) (verdict health.Verdict, skip bool) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(schema.GroupVersionKind{Group: c.ID.Group, Version: c.Version, Kind: c.ID.Kind})
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: c.ID.Namespace, Name: c.ID.Name}, live)
	switch {
	case IsAbsent(err):
		return health.Absent(c.Desired), false
	case meta.IsNoMatchError(err), isUnserved(err):
		return health.Verdict{Status: health.Failed, Error: fmt.Sprintf(
			"no API serves %s in version %q: check apiVersion and kind", c.ID.GroupKind(), c.Version)}, false
	case err != nil:
		return health.Verdict{Status: health.Unknown, Error: err.Error()}, false
	}
	if IsSkipped(live) {
		return health.Verdict{}, true
	}
	opts, err := o.of(ctx, live, health.Options{Now: now, Custom: c.Custom})
	if err != nil {
		return health.Verdict{Status: health.Unknown, Error: err.Error()}, false
	}
	return health.Judge(live, opts), false
}
