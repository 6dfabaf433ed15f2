package integration

import (
	"testing"

	admissionapi "k8s.io/api/admission/v1"

	"github.com/holdfast-gitops/holdfast/internal/app"
)

// TestC12: r2 drops an object, and r3 brings it back before r2's deletions are sent. What the newest revision has, or may
// have, is not deleted.
func TestC12(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Controllers = []string{app.ControllerKustomization} })
	gate := s.newGate()
	server := newArtifactServer(t)
	server.publish(t, s.source(sourceName), "r1", archive(t, map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")}), "")
	s.deploy("app")
	s.awaitReady("app", "r1")
	uid := s.uid(s.cm("b"))
	gate.holdNext(func(r *admissionapi.AdmissionRequest) bool {
		return r.Resource.Resource == "configmaps" && r.Operation == admissionapi.Update && r.Name == "a"
	})
	server.publish(t, s.getSource(sourceName), "r2", archive(t, map[string]string{"a.yaml": configMap("a", "2")}), "")
	gate.awaitHeld("the apply of r2")
	server.publish(t, s.getSource(sourceName), "r3", archive(t, map[string]string{"a.yaml": configMap("a", "3"), "b.yaml": configMap("b", "1")}), "")
	gate.release()
	s.awaitReady("app", "r3")
	s.sameUID(s.cm("b"), uid)
	s.request("app")
	s.sameUID(s.cm("b"), uid)
}
