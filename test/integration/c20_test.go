package integration

import (
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// c20 is a Deployment that moves from the Kustomization outer to inner, which are both there and Ready.
func c20(t *testing.T) (s *scenario, move func() (revision, uid string)) {
	t.Helper()
	s = newStory(t)
	files := map[string]string{"outer/x.yaml": deployment("x", goodImage, ""), "outer/rest.yaml": configMap("outer", "1"), "inner/rest.yaml": configMap("inner", "1")}
	r1 := s.push(files)
	s.follow()
	s.deploy("outer", at("./outer"))
	s.deploy("inner", at("./inner"))
	s.awaitReady("outer", r1)
	s.awaitReady("inner", r1)
	return s, func() (string, string) {
		uid := s.uid(s.deploymentOf("x"))
		files["inner/x.yaml"] = files["outer/x.yaml"]
		delete(files, "outer/x.yaml")
		return s.push(files), uid
	}
}

// hold makes a Kustomization build nothing until it is let go.
func (s *scenario) hold(name string) (letGo func()) {
	s.t.Helper()
	s.change(name, waitsForAnother)
	s.awaitCondition(name, "Ready", "False", "DependencyNotReady")
	return func() { s.change(name, func(ks *v1.Kustomization) { ks.Spec.DependsOn = nil }) }
}

// TestC20InnerFirst: the new owner applies the object first. The old one sees the other's labels and drops the entry.
func TestC20InnerFirst(t *testing.T) {
	t.Parallel()
	s, move := c20(t)
	letGo := s.hold("outer")
	r2, uid := move()
	s.awaitReady("inner", r2)
	letGo()
	s.awaitReady("outer", r2)
	s.awaitDropped("outer", s.id("apps/Deployment", "x"))
	s.awaitEvent("outer", "Normal", "Progressing", "Deployment/"+s.namespace+"/x skipped", "Kustomization/"+s.namespace+"/inner")
	s.sameUID(s.deploymentOf("x"), uid)
}

// TestC20OuterFirst: the old owner gets there first. It keeps the object until the new one has built the revision, and does not
// delete it then.
func TestC20OuterFirst(t *testing.T) {
	t.Parallel()
	s, move := c20(t)
	letGo := s.hold("inner")
	r2, uid := move()
	s.awaitReady("outer", r2)
	kept := s.awaitRetained("outer", s.id("apps/Deployment", "x"), v1.RetainedMovedElsewhere)
	if !containsAll(kept.Message, []string{"Kustomization/" + s.namespace + "/inner has not built"}) {
		t.Errorf("the message is %q", kept.Message)
	}
	letGo()
	s.awaitReady("inner", r2)
	s.awaitDropped("outer", s.id("apps/Deployment", "x"))
	s.sameUID(s.deploymentOf("x"), uid)
}

// TestC20InnerFails: the new owner can't be built. The object lives, however often the old one comes by, until that is mended.
func TestC20InnerFails(t *testing.T) {
	t.Parallel()
	s, move := c20(t)
	_, uid := move()
	s.sameUID(s.deploymentOf("x"), uid)
	files := map[string]string{"outer/rest.yaml": configMap("outer", "2"), "inner/x.yaml": deployment("x", goodImage, ""), "inner/kustomization.yaml": "resources: [x.yaml, lost.yaml]\n"}
	r3 := s.push(files)
	s.awaitCondition("inner", "Ready", "False", "BuildFailed")
	s.awaitReady("outer", r3)
	s.request("outer")
	s.sameUID(s.deploymentOf("x"), uid)
	delete(files, "inner/kustomization.yaml")
	r4 := s.push(files)
	s.awaitReady("inner", r4)
	s.awaitReady("outer", r4)
	s.awaitDropped("outer", s.id("apps/Deployment", "x"))
	s.sameUID(s.deploymentOf("x"), uid)
}
