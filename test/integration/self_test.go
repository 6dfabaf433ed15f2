package integration

import (
	"fmt"
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestNeverPrunesItself: a Kustomization whose own manifest left Git, as after a bootstrap, deleted itself and then all that
// was still in Git. It stays; deleting it by hand does not wait for itself.
func TestNeverPrunesItself(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	self := fmt.Sprintf("apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: %[1]s}\n"+
		"spec: {interval: 10m, timeout: 5m, prune: true, deletionPolicy: WaitForTermination, targetNamespace: %[1]s, "+
		"sourceRef: {kind: GitRepository, name: app}}\n", s.namespace)
	r1 := s.push(map[string]string{"c.yaml": configMap("c", "1"), "old.yaml": configMap("old", "1"), "self.yaml": self})
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", r1)
	ks := s.mustGet("app")
	r2 := s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.awaitReady("app", r2)
	kept := s.awaitRetained("app", s.id("kustomize.toolkit.fluxcd.io/Kustomization", "app"), v1.RetainedProtected)
	if !containsAll(kept.Message, []string{"never prunes itself"}) {
		t.Errorf("the message is %q", kept.Message)
	}
	eventuallyGone(t, within, s.cm("old"))
	s.request("app") // one more pass, after which everything is as it was
	s.stays(s.cm("c"), ks)
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("c"))
}
