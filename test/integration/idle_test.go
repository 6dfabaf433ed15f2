package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A resync that finds nothing to do writes nothing: not to the objects, not to the Kustomization, and tells nobody (C32).
func TestIdleResyncWritesNothing(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	h := startProcess(t, s.namespace, env.Kubeconfig)
	files := webApp("1", goodImage)
	files["secret.yaml"] = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: v}\n"
	files["svc.yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n"
	files["kustomization.yaml"] = generated("1", []string{"app"}, "web.yaml", "secret.yaml", "svc.yaml", "limits.yaml")
	files["limits.yaml"] = replaceOnce(deployment("limits", goodImage, "\n        resources: {limits: {cpu: 1000m}}"), "replicas: 2", "replicas: 1")
	r1 := s.push(files)
	s.follow()
	s.deploy("web", every(time.Second))
	s.awaitReady("web", r1)
	passes := func(n float64) { t.Helper(); s.awaitPasses(h, n) }
	passes(2) // until what the rollout left to tell is told
	before, events := s.versions(), s.countEvents("web")
	passes(5)
	after := s.versions()
	for object, version := range before {
		if after[object] != version {
			t.Errorf("%s was written to: resourceVersion %s, was %s", object, after[object], version)
		}
	}
	if now := s.countEvents("web"); now != events {
		t.Errorf("%d events, %d before", now, events)
	}

	// A request is acknowledged, and that is all.
	s.request("web")
	passes(2)
	ks := "Kustomization/web"
	after = s.versions()
	for object, version := range before {
		if object != ks && after[object] != version {
			t.Errorf("on request %s was written to", object)
		}
	}
}

// awaitPasses waits until a process has made a number of passes over Kustomizations.
func (s *scenario) awaitPasses(h *running, n float64) {
	s.t.Helper()
	const series = `controller_runtime_reconcile_total{controller="kustomization"`
	start, err := h.metric(s.t.Context(), series)
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, within, fmt.Sprintf("%v more passes", n), func(ctx context.Context) error {
		now, err := h.metric(ctx, series)
		if err == nil && now < start+n {
			err = fmt.Errorf("there were %v", now-start)
		}
		return err
	})
}

// versions returns the resourceVersions of all that is applied, and of the Kustomizations.
func (s *scenario) versions() map[string]string {
	s.t.Helper()
	versions := map[string]string{}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "Service"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
			s.t.Fatal(err)
		}
		for _, item := range list.Items {
			versions[gvk.Kind+"/"+item.GetName()] = item.GetResourceVersion()
		}
	}
	return versions
}

func (s *scenario) countEvents(name string) int {
	s.t.Helper()
	events, err := s.eventsOf(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		n += int(max(1, e.Count))
	}
	return n
}
