package observe_test

import (
	"context"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/observe"
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
	got := listing(&calls, all...).Siblings(t.Context(), &all[0])
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
