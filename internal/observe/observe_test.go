package observe_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func TestStaleSeesTheObject(t *testing.T) {
	deleted := metav1.NewTime(now)
	o := getting(func(obj client.Object) error {
		if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
			t.Errorf("%T is read: metadata is enough", obj)
		}
		obj.SetUID("u1")
		obj.SetResourceVersion("7")
		obj.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
		obj.SetAnnotations(map[string]string{"kustomize.toolkit.fluxcd.io/prune": "Disabled"})
		obj.SetFinalizers([]string{"f"})
		obj.SetDeletionTimestamp(&deleted)
		return nil
	})
	want := plan.Observation{Presence: plan.Present, UID: "u1", ResourceVersion: "7", OwnerName: "shop", OwnerNamespace: "flux-system",
		DisabledBy: "prune: disabled", Finalizers: []string{"f"}, DeletedAt: now}
	if diff := cmp.Diff(want, o.Stale(t.Context(), cm, now, time.Minute)); diff != "" {
		t.Error(diff)
	}
}

func TestStaleIsThreeValued(t *testing.T) {
	notFound := apierrors.NewNotFound(resource, "app")
	for name, err := range map[string]error{"not found": notFound, "wrapped": fmt.Errorf("get: %w", notFound)} {
		if got := failing(err).Stale(t.Context(), cm, now, time.Minute); got.Presence != plan.Absent {
			t.Errorf("%s: %+v, want absent", name, got)
		}
	}
	unknown := faults()
	unknown["404 of the resource"], unknown["404 without details"] = generic404(), bare404()
	unknown["no match"] = &meta.NoKindMatchError{GroupKind: configMap.GroupKind(), SearchedVersions: []string{"v1"}}
	for name, err := range unknown {
		got := failing(err).Stale(t.Context(), cm, now, time.Minute)
		if got.Presence != plan.Unknown || got.Why == "" {
			t.Errorf("%s: %+v, want unknown and why", name, got)
		}
		if observe.IsAbsent(err) {
			t.Errorf("%s counts as absent", name)
		}
	}
	if observe.IsAbsent(nil) {
		t.Error("no error counts as absent")
	}
}

// failingMapper can't say which API serves a kind.
type failingMapper struct {
	meta.RESTMapper
	err error
}

func (m failingMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, m.err
}

func TestStaleWithoutAnAPI(t *testing.T) {
	for name, err := range map[string]error{
		"discovery fails":         errors.New("connection refused"),
		"discovery fails in part": &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{thing.GroupVersion(): errors.New("503")}},
		"forbidden":               apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")),
	} {
		o := failing(errors.New("not asked"))
		o.Mapper = failingMapper{err: err}
		for range 3 {
			if got := o.Stale(t.Context(), cm, now, 0); got.Presence != plan.Unknown || !strings.Contains(got.Why, err.Error()) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

// A kind that no API serves is gone with its objects, but only when complete discovery says so twice, an interval apart.
func TestUnservedKinds(t *testing.T) {
	const interval = 10 * time.Minute
	all, none := []schema.GroupVersionKind{configMap, thing}, []schema.GroupVersionKind{configMap}
	partial := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "example.com", Version: "v1"}: errors.New("503")}}
	elsewhere := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1"}: errors.New("503")}}
	type look struct {
		after time.Duration
		kinds []schema.GroupVersionKind
		err   error
		// read is true when the mapper knows the kind, and the object is read.
		read bool
		want plan.Presence
	}
	tests := map[string][]look{
		"twice, an interval apart":  {{0, none, nil, false, plan.Unknown}, {interval, none, nil, false, plan.Absent}},
		"too soon":                  {{0, none, nil, false, plan.Unknown}, {interval - 1, none, nil, false, plan.Unknown}, {interval, none, nil, false, plan.Absent}},
		"twice at once":             {{0, none, nil, false, plan.Unknown}, {0, none, nil, false, plan.Unknown}},
		"once":                      {{interval, none, nil, false, plan.Unknown}},
		"partial":                   {{0, none, partial, false, plan.Unknown}, {interval, none, partial, false, plan.Unknown}},
		"partial, in another group": {{0, none, elsewhere, false, plan.Unknown}, {interval, none, elsewhere, false, plan.Absent}},
		"partial, then complete":    {{0, none, partial, false, plan.Unknown}, {interval, none, nil, false, plan.Unknown}, {2 * interval, none, nil, false, plan.Absent}},
		"partial in between":        {{0, none, nil, false, plan.Unknown}, {interval, none, partial, false, plan.Unknown}, {interval, none, nil, false, plan.Absent}},
		"nobody looked for long": {{0, none, nil, false, plan.Unknown}, {2*interval + 1, none, nil, false, plan.Unknown},
			{3*interval + 1, none, nil, false, plan.Absent}},
		"looks far apart": {{0, none, nil, false, plan.Unknown}, {2 * interval, none, nil, false, plan.Absent}, {4 * interval, none, nil, false, plan.Absent}},
		"served in between": {{0, none, nil, false, plan.Unknown}, {time.Minute, all, nil, false, plan.Unknown},
			{interval, none, nil, false, plan.Unknown}, {2 * interval, none, nil, false, plan.Absent}},
		"the object was read in between": {{0, none, nil, false, plan.Unknown}, {time.Minute, all, nil, true, plan.Present},
			{interval, none, nil, false, plan.Unknown}, {interval + time.Minute, none, nil, false, plan.Unknown}, {2 * interval, none, nil, false, plan.Absent}},
		"served in another version": {{0, []schema.GroupVersionKind{{Group: "example.com", Version: "v2", Kind: "Thing"}}, nil, false, plan.Unknown},
			{interval, []schema.GroupVersionKind{{Group: "example.com", Version: "v2", Kind: "Thing"}}, nil, false, plan.Unknown}},
		"the same kind in another group": {{0, []schema.GroupVersionKind{{Group: "other.com", Version: "v1", Kind: "Thing"}}, nil, false, plan.Unknown},
			{interval, []schema.GroupVersionKind{{Group: "other.com", Version: "v1", Kind: "Thing"}}, nil, false, plan.Absent}},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			o := getting(func(client.Object) error { return nil })
			for i, l := range looks {
				o.Mapper = mapperOf(configMap)
				if l.read {
					o.Mapper = mapperOf(thing)
				}
				o.Discovery = &served{kinds: l.kinds, err: l.err}
				got := o.Stale(t.Context(), object.ID{Group: "example.com", Kind: "Thing", Namespace: "shop", Name: "x"}, now.Add(l.after), interval)
				if got.Presence != l.want || (got.Presence == plan.Unknown && got.Why == "") {
					t.Errorf("look %d: %+v, want %v", i, got, l.want)
				}
			}
		})
	}
}

func TestPruneDisabledBy(t *testing.T) {
	const prefix = "kustomize.toolkit.fluxcd.io/"
	tests := map[string]struct {
		annotations, labels map[string]string
		want                string
		wantSkipped         bool
	}{
		"nothing":             {},
		"prune":               {annotations: map[string]string{prefix + "prune": "disabled"}, want: "prune: disabled"},
		"any case":            {annotations: map[string]string{prefix + "prune": "DISABLED"}, want: "prune: disabled"},
		"as a label":          {labels: map[string]string{prefix + "prune": "Disabled"}, want: "prune: disabled"},
		"reconcile":           {annotations: map[string]string{prefix + "reconcile": "disabled"}, want: "reconcile: disabled", wantSkipped: true},
		"ssa":                 {annotations: map[string]string{prefix + "ssa": "Ignore"}, want: "ssa: ignore", wantSkipped: true},
		"ssa merge":           {annotations: map[string]string{prefix + "ssa": "Merge"}},
		"enabled":             {annotations: map[string]string{prefix + "prune": "enabled", prefix + "reconcile": "enabled"}},
		"another prefix":      {annotations: map[string]string{"example.com/prune": "disabled"}},
		"prune and reconcile": {annotations: map[string]string{prefix + "prune": "disabled", prefix + "reconcile": "disabled"}, want: "prune: disabled", wantSkipped: true},
	}
	for name, tt := range tests {
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations, Labels: tt.labels}}
		if got := observe.PruneDisabledBy(obj); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if got := observe.IsSkipped(obj); got != tt.wantSkipped {
			t.Errorf("%s: skipped %t", name, got)
		}
	}
}

// Health that could not be read is no verdict; an object that is not there is not healthy.
func TestHealth(t *testing.T) {
	checks := []observe.Check{{ID: cm, Version: "v1"}}
	status := func(o *observe.Observer) health.Verdict { return o.Health(t.Context(), checks, now)[0].Verdict }
	for name, err := range faults() {
		if v := status(failing(err)); v.Status != health.Unknown || v.Error == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := status(failing(apierrors.NewNotFound(resource, "app"))); v.Status != health.NotFound {
		t.Errorf("%+v", v)
	}
	for _, err := range []error{generic404(), &meta.NoKindMatchError{GroupKind: configMap.GroupKind()}} {
		if v := status(failing(err)); v.Status != health.Failed || !strings.Contains(v.Error, `no API serves ConfigMap in version "v1"`) {
			t.Errorf("%+v", v)
		}
	}
	if v := status(getting(func(client.Object) error { return nil })); v.Status != health.Current {
		t.Errorf("%+v", v)
	}
	skipped := getting(func(obj client.Object) error {
		obj.SetAnnotations(map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "Ignore"})
		return nil
	})
	if got := skipped.Health(t.Context(), checks, now); len(got) != 0 {
		t.Errorf("%+v, though it is not ours to apply", got)
	}
}
