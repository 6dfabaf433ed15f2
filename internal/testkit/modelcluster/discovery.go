package modelcluster

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Mapper is a RESTMapper as controller-runtime has it: a kind that it found once it knows for ever, and for one that it
// does not know it asks the server.
type Mapper struct {
	meta.RESTMapper // nil: only RESTMapping and KindFor are used

	cluster *Cluster
	gate    Gate
	known   map[schema.GroupKind]*meta.RESTMapping
}

func (c *Cluster) newMapper(gate Gate) *Mapper {
	m := &Mapper{cluster: c, gate: gate, known: map[schema.GroupKind]*meta.RESTMapping{}}
	for _, k := range c.served() {
		if k.definition == "" {
			m.known[k.GroupKind()] = mapping(k)
		}
	}
	return m
}

func mapping(k *kind) *meta.RESTMapping {
	scope := meta.RESTScope(meta.RESTScopeRoot)
	if k.namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &meta.RESTMapping{Resource: k.GroupVersion().WithResource(k.plural), GroupVersionKind: k.GroupVersionKind, Scope: scope}
}

// KindFor finds the kind of a resource.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	gk := schema.GroupKind{Group: resource.Group, Kind: resource.Resource} // not a kind, and so not served
	for _, k := range m.cluster.served() {
		if k.Group == resource.Group && k.plural == resource.Resource {
			gk = k.GroupKind()
		}
	}
	found, err := m.RESTMapping(gk)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return found.GroupVersionKind, nil
}

// RESTMapping finds the resource of a kind.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if known := m.known[gk]; known != nil {
		return known, nil
	}
	r := Request{Verb: Discover, ID: object.ID{Group: gk.Group, Kind: gk.Kind}}
	if err := m.gate.Enter(r); err != nil {
		return nil, err
	}
	k := m.cluster.kindOf(gk)
	err := error(&meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions})
	if k != nil {
		err = nil
	}
	if err := m.gate.Leave(r, err); err != nil {
		return nil, err
	}
	if k == nil {
		return nil, errors.New("the gate made a kind out of none")
	}
	m.known[gk] = mapping(k)
	return m.known[gk], nil
}

// Discovery lists the kinds that are served.
type Discovery struct {
	discovery.DiscoveryInterface // nil: only ServerGroupsAndResources is used

	cluster *Cluster
	gate    Gate
}

// NewDiscovery returns a discovery client.
func (c *Cluster) NewDiscovery(gate Gate) *Discovery { return &Discovery{cluster: c, gate: gate} }

// PartialFailure is an error of a gate that makes discovery lack a group, as that of an aggregated API that is down.
type PartialFailure struct{ Group string }

// Error names the group.
func (e *PartialFailure) Error() string { return "discovery of " + e.Group + " failed" }

// ServerGroupsAndResources lists the kinds that are served.
func (d *Discovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	r := Request{Verb: Discover}
	failed := &PartialFailure{}
	if err := d.gate.Enter(r); err != nil && !errors.As(err, &failed) {
		return nil, nil, err
	}
	var lists []*metav1.APIResourceList
	for _, k := range d.cluster.served() {
		if failed.Group != "" && k.Group == failed.Group {
			continue
		}
		gv := k.GroupVersion().String()
		if len(lists) == 0 || lists[len(lists)-1].GroupVersion != gv {
			lists = append(lists, &metav1.APIResourceList{GroupVersion: gv})
		}
		last := lists[len(lists)-1]
		last.APIResources = append(last.APIResources, metav1.APIResource{
			Name: k.plural, Kind: k.Kind, Namespaced: k.namespaced, Verbs: metav1.Verbs{"get", "list", "delete"},
		})
	}
	var err error
	if failed.Group != "" {
		err = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: failed.Group, Version: "v1"}: failed}}
	}
	return nil, lists, d.gate.Leave(r, err)
}
