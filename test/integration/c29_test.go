package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// child is the manifest of a Kustomization of the scenario's source, for a parent to apply.
func (s *scenario) child(name, path string, dependsOn ...string) string {
	s.t.Helper()
	ks := minimalKustomization(s.namespace)
	ks.Name = name
	ks.TypeMeta = metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.KustomizationKind}
	ks.Spec.Path, ks.Spec.TargetNamespace, ks.Spec.Prune = path, s.namespace, true
	ks.Spec.SourceRef.Name = sourceName
	ks.Spec.Interval.Duration = 10 * time.Minute
	ks.Spec.Timeout = &metav1.Duration{Duration: 10 * time.Minute}
	for _, d := range dependsOn {
		ks.Spec.DependsOn = append(ks.Spec.DependsOn, fluxv1.DependencyReference{Name: d})
	}
	content, err := json.Marshal(ks)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(content)
}

// TestC29: an operator and a custom resource with its finalizer are removed in one commit. The operator went first, and the
// finalizer was never run. Now it stays until the Kustomization that depends on it is gone. P151, and its order.
func TestC29(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("c29") + ".example.com"
	held := replaceOnce(widget(group, "w", "1"), "{name: w}", "{name: w, finalizers: [example.com/operator]}")
	apps := map[string]string{"operator/crd.yaml": widgetCRD(group), "operator/operator.yaml": deployment("operator", goodImage, ""), "usage/w.yaml": held}
	with := func(fleet map[string]string) map[string]string {
		all := map[string]string{"fleet/c.yaml": configMap("c", "1")}
		for _, files := range []map[string]string{apps, fleet} {
			for name, content := range files {
				all[name] = content
			}
		}
		return all
	}
	s.push(with(map[string]string{"fleet/operator.yaml": s.child("operator", "./operator"), "fleet/usage.yaml": s.child("usage", "./usage", "operator")}))
	s.follow()
	s.deploy("fleet", unwaited, at("./fleet"))
	eventually(t, within, "the usage is ready", func(ctx context.Context) error {
		ks, err := s.get(ctx, "usage")
		if err != nil {
			return err
		}
		return conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue)
	})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group}}
	operator, uid := s.deploymentOf("operator"), s.uid(s.deploymentOf("operator"))

	s.push(with(nil))
	kept := s.awaitRetained("operator", s.id("apps/Deployment", "operator"), v1.RetainedDependentsExist)
	if len(kept.Users) != 1 || kept.Users[0] != "Kustomization/"+s.namespace+"/usage" {
		t.Errorf("held by %v", kept.Users)
	}
	s.awaitMessage("operator", "Ready", metav1.ConditionUnknown, "Progressing",
		"2 objects are not deleted yet: Kustomization/"+s.namespace+"/usage (being deleted) depends on it")
	s.awaitMessage("usage", "Ready", metav1.ConditionUnknown, "Progressing",
		"Widget/"+s.namespace+"/w (Terminating: waits for finalizers example.com/operator since 20")
	// This is the moment for which the operator has to be there.
	s.sameUID(operator, uid)
	s.stays(crd)
	s.removeFinalizers(newWidget(group, s.namespace, "w"))
	eventuallyGone(t, within, s.mustGet("operator"))
	eventuallyGone(t, within, operator)
	eventuallyGone(t, within, crd)
	s.stays(s.cm("c"))
}

// TestC29SuspendedDependent: one that nobody will ever delete holds the deletion until the timeout, which is said, and no
// longer.
func TestC29SuspendedDependent(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "b/b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("operator", unwaited, at("./a"), func(ks *v1.Kustomization) { ks.Spec.Timeout = &metav1.Duration{Duration: 30 * time.Second} })
	s.deploy("usage", unwaited, at("./b"), func(ks *v1.Kustomization) { ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "operator"}} })
	s.awaitReady("usage", r1)
	s.change("usage", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	ks := s.mustGet("operator")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	kept := s.awaitRetained("operator", s.cmID("a"), v1.RetainedDependentsExist)
	if !containsAll(kept.Message, []string{"/usage (suspended) depends on it"}) {
		t.Errorf("the message is %q", kept.Message)
	}
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("a"))
	s.awaitEvent("operator", "Warning", "DependentsIgnored", "/usage (suspended) depends on it", "did not go within ")
	s.stays(s.cm("b"))
}

// TestC29FinishedJob: the pods of a finished Job stayed behind when it was deleted.
func TestC29FinishedJob(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	job := `apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.example/job:exit0"}]
`
	r1 := s.push(map[string]string{"job.yaml": job})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	s.awaitFinished("job")
	pods := func(ctx context.Context) (int, error) {
		list := &corev1.PodList{}
		err := kube.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"batch.kubernetes.io/job-name": "job"})
		return len(list.Items), err
	}
	if n, err := pods(t.Context()); err != nil || n != 1 {
		t.Fatalf("the finished Job has %d pods: %v", n, err)
	}
	ks := s.mustGet("app")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	eventually(t, within, "no pod of the Job is left", func(ctx context.Context) error {
		if n, err := pods(ctx); err != nil || n > 0 {
			return fmt.Errorf("%d pods: %w", n, err)
		}
		return nil
	})
}
