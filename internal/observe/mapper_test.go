package observe_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// brokenDiscovery is discovery that ends with an error.
type brokenDiscovery struct {
	discovery.DiscoveryInterface
	err error
}

func (f brokenDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, nil, f.err
}

// A kind that is not found counts as not served only if discovery of its group works.
func TestMapperTellsUnservedFromUnanswered(t *testing.T) {
	dead := schema.GroupVersion{Group: "dead.example.com", Version: "v1"}
	partial := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{dead: errors.New("no endpoints")}}
	for name, test := range map[string]struct {
		group     string
		discovery error
		unserved  bool
	}{
		"discovery works":          {"dead.example.com", nil, true},
		"the group fails":          {"dead.example.com", partial, false},
		"another group fails":      {"other.example.com", partial, true},
		"discovery fails as whole": {"other.example.com", errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := observe.NewMapper(meta.NewDefaultRESTMapper(nil), brokenDiscovery{err: test.discovery})
			gvr := schema.GroupVersionResource{Group: test.group, Resource: "widgets"}
			gk := schema.GroupKind{Group: test.group, Kind: "Widget"}
			_, mapping := m.RESTMapping(gk)
			_, mappings := m.RESTMappings(gk)
			_, kind := m.KindFor(gvr)
			_, kinds := m.KindsFor(gvr)
			_, resource := m.ResourceFor(gvr)
			_, resources := m.ResourcesFor(gvr)
			for method, err := range map[string]error{"RESTMapping": mapping, "RESTMappings": mappings, "KindFor": kind,
				"KindsFor": kinds, "ResourceFor": resource, "ResourcesFor": resources} {
				var unanswered *observe.UnansweredError
				if meta.IsNoMatchError(err) != test.unserved || errors.As(err, &unanswered) == test.unserved {
					t.Errorf("%s: %v", method, err)
				}
				if !test.unserved && !strings.Contains(err.Error(), test.group) {
					t.Errorf("%s does not name the group: %v", method, err)
				}
			}
		})
	}
}
