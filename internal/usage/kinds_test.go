package usage_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// What makes others is listed before them. The other way round a pod that is made between the two lists would be in neither
// answer, if its maker is at zero by the time that is listed.
func TestMakersAreListedFirst(t *testing.T) {
	place := func(kind string) int {
		return slices.IndexFunc(usage.UserKinds, func(k schema.GroupVersionKind) bool { return k.Kind == kind })
	}
	for made, makers := range map[string][]string{
		"Pod":        {"ReplicationController", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"},
		"ReplicaSet": {"Deployment"},
		"Job":        {"CronJob"},
	} {
		for _, maker := range makers {
			if place(maker) < 0 || place(maker) > place(made) {
				t.Errorf("%s is listed in place %d, %s in place %d", maker, place(maker), made, place(made))
			}
		}
	}
}
