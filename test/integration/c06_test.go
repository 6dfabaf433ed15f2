package integration

import (
	"maps"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC06: r2 drops an object and something else in it goes wrong. The object was deleted all the same; here it stays,
// with its UID, for as long as r2 is the newest revision, and status says so.
func TestC06(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1, r2 := map[string]string{}, map[string]string{}
	for _, path := range []string{"build", "dryrun", "health", "variables"} {
		keep := path + "/keep.yaml"
		r1[keep], r2[keep] = configMap(path+"-keep", "1"), configMap(path+"-keep", "2")
		r1[path+"/b.yaml"] = deployment(path+"-b", "registry.example/web:1", "")
	}
	r2["build/kustomization.yaml"] = "resources: [keep.yaml, gone.yaml]\n"
	r2["dryrun/service.yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: {ports: []}\n"
	r2["health/a.yaml"] = broken("health-a", "")
	first := s.push(r1)
	s.follow()
	uids := map[string]string{}
	for _, path := range []string{"build", "dryrun", "health", "variables"} {
		s.deploy(path, at("./"+path))
	}
	for _, path := range []string{"build", "dryrun", "health", "variables"} {
		s.awaitReady(path, first)
		uids[path] = s.uid(s.deploymentOf(path + "-b"))
	}
	s.push(r2)
	s.change("variables", func(ks *v1.Kustomization) {
		ks.Spec.PostBuild = &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{{Kind: "ConfigMap", Name: "absent"}}}
	})
	s.awaitMessage("build", "Ready", metav1.ConditionFalse, "BuildFailed", "kustomize build failed: ", "gone.yaml")
	s.awaitMessage("dryrun", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Service/"+s.namespace+"/wrong dry-run failed", "spec.ports")
	s.awaitMessage("health", "Ready", metav1.ConditionFalse, "HealthCheckFailed", "Deployment/"+s.namespace+"/health-a")
	s.awaitMessage("variables", "Ready", metav1.ConditionFalse, "BuildFailed", "substitute from 'ConfigMap/absent' error")
	for _, path := range []string{"dryrun", "health"} {
		s.awaitRetained(path, s.id("apps/Deployment", path+"-b"), v1.RetainedAwaitingHealth)
	}
	for _, path := range []string{"build", "dryrun", "health", "variables"} {
		ks := s.request(path)
		if err := inInventory(ks, s.id("apps/Deployment", path+"-b")); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		s.sameUID(s.deploymentOf(path+"-b"), uids[path])
	}
	// Once mended, what was held back is released.
	r3 := maps.Clone(r2)
	delete(r3, "build/kustomization.yaml")
	delete(r3, "dryrun/service.yaml")
	r3["health/a.yaml"] = deployment("health-a", goodImage, "")
	third := s.push(r3)
	s.change("variables", func(ks *v1.Kustomization) { ks.Spec.PostBuild = nil })
	for _, path := range []string{"build", "dryrun", "health", "variables"} {
		s.awaitReady(path, third)
		eventuallyGone(t, within, s.deploymentOf(path+"-b"))
	}
}
