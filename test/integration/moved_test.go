package integration

import (
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// waitsForAnother makes a Kustomization build nothing.
func waitsForAnother(ks *v1.Kustomization) {
	ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "late"}}
}

// An object moves to another Kustomization by a change of both specs, without a commit: what the other one built with its
// old spec does not say that it won't have it.
func TestMovedByAChangeOfSpec(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"all/x.yaml": configMap("x", "1"), "all/y.yaml": configMap("y", "1"), "rest/y.yaml": configMap("y", "1"),
		"b1/b.yaml": configMap("b", "1"), "b2/b.yaml": configMap("b", "1"), "b2/x.yaml": configMap("x", "1")})
	s.follow()
	s.deploy("a", unwaited, at("./all"))
	s.deploy("b", unwaited, at("./b1"))
	s.awaitReady("a", r1)
	s.awaitReady("b", r1)
	uid := s.uid(s.cm("x"))
	s.change("b", func(ks *v1.Kustomization) { at("./b2")(ks); waitsForAnother(ks) })
	s.change("a", at("./rest"))
	kept := s.awaitRetained("a", s.cmID("x"), v1.RetainedMovedElsewhere)
	if !containsAll(kept.Message, []string{"b has not built its changed spec"}) {
		t.Errorf("the message is %q", kept.Message)
	}
	s.change("b", func(ks *v1.Kustomization) { ks.Spec.DependsOn = nil })
	s.awaitDropped("a", s.cmID("x"))
	s.sameUID(s.cm("x"), uid)
}

// A Kustomization is deleted while its successor has built nothing yet: its objects stay until the timeout, and are left
// then. One that is being deleted itself is no successor.
func TestDeletedBeforeItsSuccessorBuilt(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"x.yaml": configMap("x", "1")})
	s.follow()
	s.deploy("old", unwaited, func(ks *v1.Kustomization) { ks.Spec.Timeout = &metav1.Duration{Duration: 12 * time.Second} })
	s.awaitReady("old", r1)
	uid := s.uid(s.cm("x"))
	s.deploy("new", unwaited, waitsForAnother)
	old := s.mustGet("old")
	if err := kube.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.awaitRetained("old", s.cmID("x"), v1.RetainedMovedElsewhere)
	eventuallyGone(t, within, old)
	s.awaitEvent("old", "Warning", "Retained", "1 objects are left", "ConfigMap/"+s.namespace+"/x")
	s.change("new", func(ks *v1.Kustomization) { ks.Spec.DependsOn = nil })
	s.awaitReady("new", r1)
	s.sameUID(s.cm("x"), uid)
}

// A neighbour that is being deleted, and takes its time, holds nothing up.
func TestNeighbourBeingDeleted(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "a/old.yaml": configMap("old", "1"), "b/b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("a", unwaited, at("./a"))
	s.deploy("b", unwaited, at("./b"), func(ks *v1.Kustomization) { ks.Finalizers = []string{"example.com/someone"} })
	s.awaitReady("a", r1)
	s.awaitReady("b", r1)
	b := s.mustGet("b")
	if err := kube.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "b/b.yaml": configMap("b", "1")})
	eventuallyGone(t, within, s.cm("old"))
	s.removeFinalizers(b)
}
