package observe_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// kustomization follows the GitRepository "app".
func kustomization(name string, changes ...func(*v1.Kustomization)) v1.Kustomization {
	ks := v1.Kustomization{}
	ks.Namespace, ks.Name, ks.UID, ks.Generation = "shop", name, types.UID("uid-"+name), 3
	ks.Spec.SourceRef = fluxv1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "app"}
	ks.Status.Rollout = &v1.RolloutStatus{Wanted: &v1.RevisionDigest{Revision: "v2"}, WantedGeneration: 3}
	for _, change := range changes {
		change(&ks)
	}
	return ks
}

// listing returns an observer that lists the Kustomizations, and counts how often.
func listing(calls *int, all ...v1.Kustomization) *observe.Observer {
	return &observe.Observer{Reader: interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			*calls++
			list.(*v1.KustomizationList).Items = all
			return nil
		}})}
}

// All pages of the list of all namespaces are read, and one that fails makes all of it unknown.
func TestSiblingsInPages(t *testing.T) {
	self := kustomization("self")
	var failAt string
	o := listing(new(int))
	o.Reader = interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var lo client.ListOptions
			lo.ApplyOptions(opts)
			if lo.Namespace != "" || lo.LabelSelector != nil || lo.FieldSelector != nil || lo.Limit == 0 {
				t.Errorf("a list with %+v", lo)
			}
			if failAt != "" && lo.Continue == failAt {
				return errors.New("the continue parameter is too old")
			}
			next := map[string]string{"": "b", "b": "c"}[lo.Continue]
			list.(*v1.KustomizationList).Items = []v1.Kustomization{kustomization("of-" + cmp.Or(lo.Continue, "a"))}
			list.SetContinue(next)
			return nil
		}})
	got := o.Siblings(t.Context(), &self, now, 0)
	if len(got.List) != 3 || got.List[0].Name != "of-a" || got.List[2].Name != "of-c" {
		t.Errorf("%+v", got)
	}
	failAt = "c"
	if got := o.Siblings(t.Context(), &self, now, 0); got.Known || len(got.List) > 0 || got.Why == "" {
		t.Errorf("though a page is missing: %+v", got)
	}
}

// What a sibling built counts only with the spec that it has now.
func TestSiblings(t *testing.T) {
	deleted := metav1.NewTime(now)
	all := []v1.Kustomization{
		kustomization("self"), kustomization("current"),
		kustomization("old-spec", func(ks *v1.Kustomization) { ks.Generation = 4 }),
		kustomization("new", func(ks *v1.Kustomization) { ks.Status.Rollout = nil }),
		kustomization("leaving", func(ks *v1.Kustomization) { ks.DeletionTimestamp = &deleted }),
		kustomization("elsewhere", func(ks *v1.Kustomization) { ks.Spec.SourceRef.Namespace = "other" }),
		kustomization("same", func(ks *v1.Kustomization) { ks.Spec.SourceRef.Namespace = "shop" }),
	}
	calls := 0
	got := listing(&calls, all...).Siblings(t.Context(), &all[0], now, 0)
	if !got.Known || len(got.List) != len(all)-1 {
		t.Fatalf("%+v", got)
	}
	for _, s := range got.List {
		pending, leaving, built := s.Name == "old-spec", s.Name == "leaving", "v2"
		if s.Name == "new" {
			built = ""
		}
		if s.SpecPending != pending || s.Deleting != leaving || s.BuiltRevision != built || s.SameSource != (s.Name != "elsewhere") {
			t.Errorf("%+v", s)
		}
	}
}

// What Flux looks after is judged by what Flux writes: the revision of the last apply, once it is Ready with the spec of now. What
// holdfast wrote there before does not count any more when Flux has gone on from there.
func TestSiblingsOfFlux(t *testing.T) {
	of := func(ready metav1.ConditionStatus, applied string, changes ...func(*v1.Kustomization)) v1.Kustomization {
		return kustomization("other", append([]func(*v1.Kustomization){func(ks *v1.Kustomization) {
			ks.Status = v1.KustomizationStatus{}
			ks.Status.ObservedGeneration, ks.Status.LastAppliedRevision, ks.Status.LastAttemptedRevision = 3, applied, "v3"
			ks.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: ready, Reason: "Any"}}
		}}, changes...)...)
	}
	had := func(running string) func(*v1.Kustomization) {
		return func(ks *v1.Kustomization) {
			ks.Status.Rollout = &v1.RolloutStatus{Wanted: &v1.RevisionDigest{Revision: "v1"}, WantedGeneration: 2, Running: &v1.RevisionDigest{Revision: running},
				Retained: []v1.RetainedObject{{ID: cm.Inventory()}}, Skipped: &v1.SkippedRevision{}}
		}
	}
	tests := map[string]struct {
		ks      v1.Kustomization
		want    string
		pending bool
		kept    int
	}{
		"ready":                          {ks: of(metav1.ConditionTrue, "v2"), want: "v2"},
		"at work":                        {ks: of(metav1.ConditionUnknown, "v2")},
		"failed":                         {ks: of(metav1.ConditionFalse, "v2")},
		"never applied":                  {ks: of(metav1.ConditionTrue, "")},
		"no condition":                   {ks: of(metav1.ConditionTrue, "v2", func(ks *v1.Kustomization) { ks.Status.Conditions = nil })},
		"another spec":                   {ks: of(metav1.ConditionTrue, "v2", func(ks *v1.Kustomization) { ks.Generation = 4 })},
		"was holdfast's":                 {ks: of(metav1.ConditionTrue, "v2", had("v1")), want: "v2"},
		"was holdfast's, and is at work": {ks: of(metav1.ConditionUnknown, "v2", had("v1")), pending: true, kept: 1},
		"is holdfast's":                  {ks: of(metav1.ConditionTrue, "v2", had("v2")), pending: true, kept: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			self := kustomization("self")
			o := listing(new(int), self, tt.ks)
			o.Mapper = mapperOf(configMap)
			got := o.Siblings(t.Context(), &self, now, 0).List
			if len(got) != 1 || got[0].BuiltRevision != tt.want || got[0].SpecPending != tt.pending || len(got[0].Kept) != tt.kept {
				t.Errorf("%+v, want built %q, pending %t, %d kept", got, tt.want, tt.pending, tt.kept)
			}
		})
	}
}

// Those that wait share a list for a moment; before a deletion it is made anew. A list that failed is not shared.
func TestSiblingsAreShared(t *testing.T) {
	calls := 0
	a, b := kustomization("a"), kustomization("b")
	o := listing(&calls, a, b)
	for i, look := range []struct {
		at   time.Duration
		age  time.Duration
		want int
	}{{0, 2 * time.Second, 1}, {time.Second, 2 * time.Second, 1}, {time.Second, 0, 2}, {2 * time.Second, 2 * time.Second, 2}, {3 * time.Second, 2 * time.Second, 3},
		{0, 2 * time.Second, 4}, {time.Second, 2 * time.Second, 4}} { // the clock went back
		ks := []*v1.Kustomization{&a, &b}[i%2]
		got := o.Siblings(t.Context(), ks, now.Add(look.at), look.age)
		if calls != look.want || len(got.List) != 1 || got.List[0].Name == ks.Name || !got.List[0].SameSource {
			t.Errorf("look %d: %d lists, want %d; %+v", i, calls, look.want, got)
		}
	}
	failed := failing(nil)
	failed.Reader = interceptor.NewClient(nil, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("forbidden")
		}})
	for range 2 {
		if got := failed.Siblings(t.Context(), &a, now, time.Hour); got.Known || got.Why == "" {
			t.Errorf("%+v", got)
		}
	}
}

// Names without a namespace are of the one that depends, and a list that was made before something changed does not count.
func TestDependenciesOfSiblings(t *testing.T) {
	usage := kustomization("usage", func(ks *v1.Kustomization) {
		ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "operator"}, {Namespace: "infra", Name: "net"}}
	})
	self, calls := kustomization("operator"), 0
	o := listing(&calls, usage, self)
	for i := range 3 {
		got := o.Siblings(t.Context(), &self, now, time.Minute)
		want := []plan.Owner{{Namespace: "shop", Name: "operator"}, {Namespace: "infra", Name: "net"}}
		if len(got.List) != 1 || !slices.Equal(got.List[0].DependsOn, want) {
			t.Fatalf("%+v", got.List)
		}
		if calls != 1+max(0, i-1) {
			t.Errorf("look %d: %d lists", i, calls)
		}
		if i == 1 {
			o.SiblingsChanged()
		}
	}
}

// An entry may name a namespace for an object that has none. It is about the same object.
func TestSiblingsAreCanonical(t *testing.T) {
	definition := object.ID{Group: crdKind.Group, Kind: crdKind.Kind, Name: "things.example.com"}
	spelled := definition
	spelled.Namespace = "shop"
	self, calls := kustomization("self"), 0
	o := listing(&calls,
		kustomization("has", func(ks *v1.Kustomization) {
			ks.Status.Inventory = inventory.Of(inventory.Entry{ID: spelled, Version: "v1"}, inventory.Entry{ID: cm, Version: "v1"}).Encode()
			ks.Status.Rollout.Retained = []v1.RetainedObject{{ID: spelled.Inventory()}}
		}),
		kustomization("wants", func(ks *v1.Kustomization) {
			ks.Status.Rollout.Skipped = &v1.SkippedRevision{NewCount: 1, New: []string{spelled.Inventory()}}
		}))
	o.Mapper = mapperOf(configMap, crdKind)
	got := o.Siblings(t.Context(), &self, now, 0).List
	if has := got[0]; !maps.Equal(has.Inventory, object.NewSet(definition, cm)) || !maps.Equal(has.Kept, object.NewSet(definition)) {
		t.Errorf("it has %v and keeps %v", has.Inventory, has.Kept)
	}
	if wants := got[1]; !maps.Equal(wants.Inventory, object.NewSet(definition)) {
		t.Errorf("it wants %v", wants.Inventory)
	}
}

// What the source wants of a Kustomization that runs an older revision is not free for others; while it is not known in full, the revision
// counts as not built.
func TestSiblingThatSkipsARevision(t *testing.T) {
	wanted := object.ID{Kind: "ConfigMap", Namespace: "shop", Name: "moved"}
	skipping := func(name string, change func(*v1.SkippedRevision)) v1.Kustomization {
		return kustomization(name, func(ks *v1.Kustomization) {
			ks.Status.Rollout.Skipped = &v1.SkippedRevision{RevisionDigest: v1.RevisionDigest{Revision: "v3"}, Compared: true, NewCount: 1, New: []string{wanted.Inventory()}}
			change(ks.Status.Rollout.Skipped)
		})
	}
	all := []v1.Kustomization{
		kustomization("self"),
		skipping("compared", func(*v1.SkippedRevision) {}),
		skipping("not-built", func(s *v1.SkippedRevision) { s.Compared = false }),
		skipping("cut-short", func(s *v1.SkippedRevision) { s.NewCount = 2 }),
	}
	o := listing(new(int), all...)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	o.Mapper = mapper
	for _, s := range o.Siblings(t.Context(), &all[0], now, 0).List {
		want := map[string]string{"compared": "v3"}[s.Name]
		if s.BuiltRevision != want || !s.Inventory.Has(wanted) {
			t.Errorf("%s: built %q, want %q, %v", s.Name, s.BuiltRevision, want, s.Inventory)
		}
	}
}

// Who is suspended takes up nothing. Who is paused does so in a while, and is waited for.
func TestPausedSiblingIsNotSuspended(t *testing.T) {
	calls, self := 0, kustomization("self")
	paused := kustomization("paused", func(ks *v1.Kustomization) {
		ks.Annotations = map[string]string{v1.AnnotationPause: `{"reason":"freeze","until":"2999-01-01T00:00:00Z"}`}
	})
	suspended := kustomization("suspended", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	got := listing(&calls, self, paused, suspended).Siblings(t.Context(), &self, time.Time{}, 0)
	if len(got.List) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, s := range got.List {
		if s.Suspended != (s.Name == "suspended") {
			t.Errorf("%s: suspended %t", s.Name, s.Suspended)
		}
	}
}
