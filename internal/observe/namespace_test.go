package observe_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// namespaced serves kinds that can be listed.
type namespaced struct {
	discovery.DiscoveryInterface
	kinds []schema.GroupVersionKind
	err   error
}

func (n *namespaced) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	var lists []*metav1.APIResourceList
	for _, k := range n.kinds {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: k.GroupVersion().String(),
			APIResources: []metav1.APIResource{{Name: k.Kind, Kind: k.Kind, Namespaced: true, Verbs: []string{"list"}}}})
	}
	return nil, lists, n.err
}

// An object counts as part of another one only if that one was listed in the same namespace.
func TestContentsOfANamespace(t *testing.T) {
	podKind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	item := func(name, uid string, owners ...string) metav1.PartialObjectMetadata {
		m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
		for _, o := range owners {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{UID: types.UID(o)})
		}
		return m
	}
	type items = []metav1.PartialObjectMetadata
	for name, tt := range map[string]struct {
		things, pods, configMaps items
		want                     []string
	}{
		"empty":                               {want: nil},
		"only what the control plane makes":   {configMaps: items{item("kube-root-ca.crt", "r")}},
		"a pod of a listed owner":             {things: items{item("t", "t")}, pods: items{item("p", "p", "t")}, want: []string{"Thing/shop/t"}},
		"a pod of a cluster-scoped owner":     {pods: items{item("p", "p", "clusterrole")}, want: []string{"Pod/shop/p"}},
		"a pod of an owner that is gone":      {things: items{item("t", "anew")}, pods: items{item("p", "p", "t")}, want: []string{"Pod/shop/p", "Thing/shop/t"}},
		"owned by what does not count itself": {configMaps: items{item("kube-root-ca.crt", "r")}, pods: items{item("p", "p", "r")}, want: []string{"Pod/shop/p"}},
		"two that own each other":             {things: items{item("t", "t", "p")}, pods: items{item("p", "p", "t")}, want: []string{"Pod/shop/p", "Thing/shop/t"}},
		"one that owns itself":                {pods: items{item("p", "p", "p")}, want: []string{"Pod/shop/p"}},
		"one of two owners is listed":         {things: items{item("t", "t")}, pods: items{item("p", "p", "gone", "t")}, want: []string{"Thing/shop/t"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observe.Observer{Discovery: &namespaced{kinds: []schema.GroupVersionKind{podKind, thing, configMap}}}
			o.Reader = interceptor.NewClient(nil, interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					all := map[string]items{"PodList": tt.pods, "ThingList": tt.things, "ConfigMapList": tt.configMaps}
					list.(*metav1.PartialObjectMetadataList).Items = all[list.GetObjectKind().GroupVersionKind().Kind]
					return nil
				}})
			ns := object.ID{Kind: "Namespace", Name: "shop"}
			got := o.Users(t.Context(), []object.ID{ns}, false)[ns]
			if !got.Known || !slices.Equal(got.Users, tt.want) {
				t.Errorf("%+v, want %v", got, tt.want)
			}
		})
	}
}

// An owner may come on a later page or of a kind that is listed later; a kind that fails makes the whole unknown.
func TestContentsOfANamespaceInPages(t *testing.T) {
	ns := object.ID{Kind: "Namespace", Name: "shop"}
	podKind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for name, tt := range map[string]struct {
		fail error
		want plan.Use
	}{
		"in full":   {want: plan.Use{Known: true, Users: []string{"Pod/shop/owner"}}},
		"cut short": {fail: fmt.Errorf("expired"), want: plan.Use{Why: "list Pod in namespace shop: expired"}},
	} {
		o := &observe.Observer{Discovery: &namespaced{kinds: []schema.GroupVersionKind{podKind}}}
		o.Reader = interceptor.NewClient(nil, interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				var lo client.ListOptions
				lo.ApplyOptions(opts)
				l := list.(*metav1.PartialObjectMetadataList)
				m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "owner", UID: "o"}}
				if lo.Continue == "" {
					m.Name, m.UID, m.OwnerReferences = "owned", "x", []metav1.OwnerReference{{UID: "o"}}
					l.Items = []metav1.PartialObjectMetadata{m}
					l.SetContinue("more")
					return nil
				}
				l.Items = []metav1.PartialObjectMetadata{m}
				l.SetContinue("")
				return tt.fail
			}})
		got := o.Users(t.Context(), []object.ID{ns}, false)[ns]
		if got.Known != tt.want.Known || got.Why != tt.want.Why || !slices.Equal(got.Users, tt.want.Users) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// What discovery lacks for a moment may have something in the Namespace, so that nothing is known.
func TestContentsOfPartialDiscovery(t *testing.T) {
	ns := object.ID{Kind: "Namespace", Name: "shop"}
	partial := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "example.com", Version: "v1"}: fmt.Errorf("503")}}
	o := &observe.Observer{Discovery: &namespaced{kinds: []schema.GroupVersionKind{configMap}, err: partial}}
	o.Reader = interceptor.NewClient(nil, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil }})
	if got := o.Users(t.Context(), []object.ID{ns}, false)[ns]; got.Known || got.Why == "" {
		t.Errorf("%+v", got)
	}
}
