package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// With retain: History, here by annotation, the config of an earlier revision outlasts every pod of it, so that a rollback
// done as `kubectl rollout undo` does it finds its config: for a Deployment, a StatefulSet and a DaemonSet.
func TestHistoryKeepsWhatARollbackNeeds(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(workloads("1"))
	s.follow()
	s.deploy("app", annotate(v1.AnnotationRetain, "History"))
	s.awaitReady("app", r1)
	r2 := s.push(workloads("2"))
	s.awaitReady("app", r2)
	config := map[string]string{}
	for _, name := range []string{"dep", "set", "all"} {
		config[name] = s.generatedName(name, "1")
		kept := s.awaitRetained("app", s.cmID(config[name]), v1.RetainedRevisionHistory)
		if len(kept.Users) == 0 {
			t.Errorf("%s: nobody is named who refers to it", name)
		}
	}
	s.awaitMessage("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", "3 RevisionHistory")

	s.suspend("app") // or the next apply would undo the undo
	s.undoDeployment("dep")
	s.undoByRevision("set", &appsv1.StatefulSet{}, config["set"])
	s.undoByRevision("all", &appsv1.DaemonSet{}, config["all"])
	for name, pods := range map[string]int{"dep": 2, "set": 1, "all": 1} {
		s.awaitOnConfig(config[name], pods)
	}
}

// workloads are one of each kind that has a history, each with a generated ConfigMap.
func workloads(value string) map[string]string {
	dep := deployment("dep", goodImage, "\n        envFrom: [{configMapRef: {name: dep}}]\n")
	other := func(kind, name, more string) string {
		text := strings.ReplaceAll(strings.ReplaceAll(dep, "kind: Deployment", "kind: "+kind), "app: dep", "app: "+name)
		text = strings.ReplaceAll(strings.ReplaceAll(text, "name: dep", "name: "+name), "  replicas: 2\n", more)
		return text
	}
	return map[string]string{
		"kustomization.yaml": generated(value, []string{"dep", "set", "all"}, "dep.yaml", "set.yaml", "all.yaml"),
		"dep.yaml":           dep,
		"set.yaml":           other("StatefulSet", "set", "  serviceName: set\n"),
		"all.yaml":           other("DaemonSet", "all", ""),
	}
}

// annotate sets an annotation of the Kustomization.
func annotate(key, value string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		if ks.Annotations == nil {
			ks.Annotations = map[string]string{}
		}
		ks.Annotations[key] = value
	}
}

// undoDeployment puts the template of the other ReplicaSet back, as `kubectl rollout undo` does.
func (s *scenario) undoDeployment(name string) {
	s.t.Helper()
	list := &appsv1.ReplicaSetList{}
	if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace), client.MatchingLabels{"app": name}); err != nil {
		s.t.Fatal(err)
	}
	for _, rs := range list.Items {
		if *rs.Spec.Replicas > 0 {
			continue
		}
		delete(rs.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": rs.Spec.Template}})
		if err != nil {
			s.t.Fatal(err)
		}
		if err := kube.Patch(s.t.Context(), s.deploymentOf(name), client.RawPatch(types.JSONPatchType, patch)); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Fatalf("Deployment %s has no ReplicaSet at zero", name)
}

// undoByRevision applies the ControllerRevision that refers to a config, as `kubectl rollout undo` does.
func (s *scenario) undoByRevision(name string, workload client.Object, config string) {
	s.t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace), client.MatchingLabels{"app": name}); err != nil {
		s.t.Fatal(err)
	}
	for _, revision := range list.Items {
		if !strings.Contains(string(revision.Data.Raw), config) {
			continue
		}
		workload.SetNamespace(s.namespace)
		workload.SetName(name)
		if err := kube.Patch(s.t.Context(), workload, client.RawPatch(types.StrategicMergePatchType, revision.Data.Raw)); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Fatalf("no ControllerRevision of %s refers to %s", name, config)
}

// awaitOnConfig waits until at least so many ready pods run on a config.
func (s *scenario) awaitOnConfig(config string, n int) {
	s.t.Helper()
	eventually(s.t, within, fmt.Sprintf("%d pods run on %s", n, config), func(ctx context.Context) error {
		pods, err := s.readyPods(ctx)
		found := 0
		for _, pod := range pods {
			if usesConfig(pod, config) {
				found++
			}
		}
		if err == nil && found < n {
			return errors.Join(fmt.Errorf("%d do", found), s.podTroubles(ctx))
		}
		return err
	})
}

// podTroubles says why containers wait.
func (s *scenario) podTroubles(ctx context.Context) error {
	list := &corev1.PodList{}
	if err := kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	var troubles []error
	for _, pod := range list.Items {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				troubles = append(troubles, fmt.Errorf("%s: %s %s", pod.Name, c.State.Waiting.Reason, c.State.Waiting.Message))
			}
		}
	}
	return errors.Join(troubles...)
}
