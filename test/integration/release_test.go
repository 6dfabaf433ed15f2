package integration

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
)

// What left while pruning was off is let go of: exactly what was shown leaves the inventory and stays on the cluster as it
// is, without owner labels. So nothing that happens to the inventory later deletes it.
func TestReleaseCommand(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(configMapsTo(4))
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.Prune = false })
	s.awaitReady("app", r1)
	r2 := s.push(configMapsTo(2))
	s.awaitReady("app", r2)
	older := s.awaitReleasable("app", 2)
	r3 := s.push(configMapsTo(1))
	s.awaitReady("app", r3)
	digest := s.awaitReleasable("app", 3)
	q := newInquirer(t, env.Config)
	shown, err := q.Release(t.Context(), s.namespace, "app")
	if err != nil {
		t.Fatal(err)
	}
	says(t, textOf(t, shown), "keeps 3 objects", "ConfigMap "+s.namespace+"/c3", "holdfast release app -n "+s.namespace+" --expect "+digest)

	c, err := control.New(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Release(t.Context(), c, s.namespace, "app", older); err == nil || !strings.Contains(err.Error(), digest) {
		t.Errorf("an older digest: %v", err)
	}
	uid := s.uid(s.cm("c3"))
	if _, err := control.Release(t.Context(), c, s.namespace, "app", digest); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c1", "c2", "c3"} {
		s.awaitDropped("app", s.cmID(name))
		cm := s.cm(name)
		s.uid(cm)
		if len(cm.Labels) != 0 || cm.Data["k"] != "1" {
			t.Errorf("%s has the labels %v and the data %v", name, cm.Labels, cm.Data)
		}
	}
	s.sameUID(s.cm("c3"), uid)
	s.awaitEvent("app", "Normal", v1.ReasonReleased, "ConfigMap/"+s.namespace+"/c1 released")
	if r := s.mustGet("app").Status.Rollout.Releasable; r != nil {
		t.Errorf("releasable is %+v", r)
	}

	// With pruning back nothing is asked, and nothing of it goes.
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Prune = true })
	s.awaitReady("app", r3)
	s.awaitNothingPending("app")
	s.stays(s.cm("c1"), s.cm("c2"), s.cm("c3"))
	if _, err := control.Release(t.Context(), c, s.namespace, "app", digest); err == nil {
		t.Error("nothing is kept, and yet it was released")
	}
}

// awaitReleasable waits until a number of objects may be let go of, and returns the digest of them.
func (s *scenario) awaitReleasable(name string, n int32) string {
	s.t.Helper()
	ks := s.await(name, fmt.Sprintf("keeping %d objects to be let go of", n), func(ks *v1.Kustomization) error {
		if r := ks.Status.Rollout.Releasable; r == nil || r.Count != n {
			return fmt.Errorf("there are %+v", r)
		}
		return nil
	})
	return ks.Status.Rollout.Releasable.Digest
}
