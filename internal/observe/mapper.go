package observe

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Mapper is a RESTMapper that tells a kind that nobody serves from one whose API does not answer. Others have the same error for both,
// and take an aggregated API that is down for one that does not exist: its objects for gone, and whatever they use for unused.
type Mapper struct {
	meta.RESTMapper
	discovery discovery.DiscoveryInterface

	mu sync.Mutex
	// at is when discovery was asked last, and err how it ended.
	at  time.Time
	err error
}

// NewMapper returns a mapper that asks discovery about each kind that another one does not find.
func NewMapper(inner meta.RESTMapper, d discovery.DiscoveryInterface) *Mapper {
	return &Mapper{RESTMapper: inner, discovery: d}
}

// discoveryAge is how old an answer about the groups that don't answer may be. Many kinds are looked for that need not be served.
const discoveryAge = 2 * time.Second

// UnansweredError says that it can't be known whether a kind is served.
type UnansweredError struct {
	Group string
	Err   error
}

// Error implements error.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("the API group %q does not answer, see `kubectl get apiservices`: %v", e.Group, e.Err)
}

// Unwrap returns what discovery said.
func (e *UnansweredError) Unwrap() error { return e.Err }

// certain returns the error of a lookup in a group, unless it says that nothing was found and the group does not answer.
func (m *Mapper) certain(group string, err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	if failed := m.discoveryError(); failed != nil && !failedElsewhere(failed, group) {
		return &UnansweredError{Group: group, Err: failureOf(failed, group)}
	}
	return err
}

func (m *Mapper) discoveryError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) >= discoveryAge {
		_, _, m.err = m.discovery.ServerGroupsAndResources()
		m.at = time.Now()
	}
	return m.err
}

// failureOf is what discovery says about a group, without what it says about others.
func failureOf(err error, group string) error {
	var partial *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &partial) {
		for gv, failure := range partial.Groups {
			if gv.Group == group {
				return failure
			}
		}
	}
	return err
}

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := m.RESTMapper.RESTMapping(gk, versions...)
	return found, m.certain(gk.Group, err)
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	found, err := m.RESTMapper.RESTMappings(gk, versions...)
	return found, m.certain(gk.Group, err)
}

// KindFor implements meta.RESTMapper.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	found, err := m.RESTMapper.KindFor(resource)
	return found, m.certain(resource.Group, err)
}

// KindsFor implements meta.RESTMapper.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	found, err := m.RESTMapper.KindsFor(resource)
	return found, m.certain(resource.Group, err)
}

// ResourceFor implements meta.RESTMapper.
func (m *Mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	found, err := m.RESTMapper.ResourceFor(input)
	return found, m.certain(input.Group, err)
}

// ResourcesFor implements meta.RESTMapper.
func (m *Mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	found, err := m.RESTMapper.ResourcesFor(input)
	return found, m.certain(input.Group, err)
}
