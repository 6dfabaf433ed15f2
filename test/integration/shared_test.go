package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Two Kustomizations want one object: both say so, once as an event, and name each other; when one of them lets go of it, it
// is not pruned, and both are at rest.
func TestObjectWantedTwice(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{"a/x.yaml": configMap("x", "a"), "a/a.yaml": configMap("a", "1"), "b/x.yaml": configMap("x", "b")}
	r1 := s.push(files)
	s.follow()
	s.deploy("a", unwaited, at("./a"), every(3*time.Second))
	s.awaitReady("a", r1)
	uid := s.uid(s.cm("x"))
	s.deploy("b", unwaited, at("./b"), every(3*time.Second))
	for name, other := range map[string]string{"a": "b", "b": "a"} {
		parts := []string{"1 objects", "ConfigMap/" + s.namespace + "/x (Kustomization/" + s.namespace + "/" + other + ")"}
		s.awaitMessage(name, v1.SharedObjectsCondition, metav1.ConditionTrue, v1.ReasonClaimedTwice, parts...)
		s.awaitEvent(name, "Warning", v1.ReasonClaimedTwice, parts...)
		s.awaitReady(name, r1)
	}

	delete(files, "a/x.yaml")
	r2 := s.push(files)
	s.awaitReady("a", r2)
	s.awaitReady("b", r2)
	s.awaitDropped("a", s.cmID("x"))
	for _, name := range []string{"a", "b"} {
		s.await(name, "alone with its objects", func(ks *v1.Kustomization) error {
			if c := meta.FindStatusCondition(ks.Status.Conditions, v1.SharedObjectsCondition); c != nil {
				return fmt.Errorf("%s", c.Message)
			}
			return nil
		})
		events, err := s.eventsOf(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, e := range events {
			if e.Reason == v1.ReasonClaimedTwice {
				told += int(max(e.Count, 1))
			}
		}
		if told != 1 {
			t.Errorf("%s told of it %d times", name, told)
		}
	}
	s.sameUID(s.cm("x"), uid)
}

// A revision that failed is applied again and again; what another Kustomization wants, too, is not, until the interval is over.
func TestRetriesLeaveSharedObjectsAlone(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a/x.yaml": configMap("x", "a"), "a/a.yaml": configMap("a", "1"), "a/web.yaml": broken("web", ""),
		"b/x.yaml": configMap("x", "b")})
	s.follow()
	s.deploy("b", unwaited, at("./b"))
	s.awaitReady("b", r1)
	s.deploy("a", at("./a"))
	s.await("a", "held", phaseIs(v1.PhaseHeld))
	s.awaitMessage("a", v1.SharedObjectsCondition, metav1.ConditionTrue, v1.ReasonClaimedTwice)
	s.request("b")
	s.awaitData("x", "b")
	for range 2 { // each is a retry of the whole revision
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"drifted"}}`))
		if err := kube.Patch(t.Context(), s.cm("a"), patch); err != nil {
			t.Fatal(err)
		}
		s.awaitData("a", "1")
	}
	s.awaitData("x", "b")
	s.request("a")
	s.awaitData("x", "a")
}

// awaitData waits until a ConfigMap has a value.
func (s *scenario) awaitData(name, value string) {
	s.t.Helper()
	cm := s.cm(name)
	eventually(s.t, within, name+" is "+value, func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
			return err
		}
		if cm.Data["k"] != value {
			return fmt.Errorf("it is %s", cm.Data["k"])
		}
		return nil
	})
}
