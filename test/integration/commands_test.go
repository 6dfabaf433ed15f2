package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/install"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// TestSuspendReconcileAndResume: a suspended Kustomization takes up nothing, asking for it is refused with the way out, and what was
// deleted by hand comes back when asked for.
func TestSuspendReconcileAndResume(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("web")
	s.awaitReady("web", r1)
	if err := kube.Delete(t.Context(), s.cm("a")); err != nil {
		t.Fatal(err)
	}
	says(t, s.holdfast(0, "reconcile", "web", "--with-source", "--wait"), "asked to look at it now", "GitRepository", "offers main@")
	s.uid(s.cm("a"))

	says(t, s.holdfast(0, "suspend", "web"), "is suspended", "holdfast resume web -n "+s.namespace)
	says(t, s.holdfast(0, "suspend", "web"), "was suspended already")
	r2 := s.push(map[string]string{"a.yaml": configMap("a", "2")})
	says(t, s.holdfast(5, "reconcile", "web"), "is suspended: nothing is written")
	says(t, s.holdfast(0, "status"), "Paused")
	says(t, s.holdfast(0, "why", "web"), "holdfast resume web")
	says(t, s.holdfast(64, "resume"), "NAME of a Kustomization or --all")
	says(t, s.holdfast(0, "resume", "--all"), s.namespace+"/web is resumed")
	s.awaitReady("web", r2)
	says(t, s.holdfast(0, "resume", "--all"), "No Kustomization is suspended")
	says(t, s.holdfast(2, "reconcile", "nothere"), "no Kustomization nothere")
	manager := ""
	for _, entry := range s.mustGet("web").ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.Raw), "requestedAt") {
			manager = entry.Manager
		}
	}
	if manager != v1.CLIManager {
		t.Errorf("the request was written by %q", manager)
	}
}

// TestSuspendTellsOfTheParent: what Git says about spec.suspend decides whether a suspension lasts, and the command says which it is.
func TestSuspendTellsOfTheParent(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	nested := func(name, more string) string {
		return fmt.Sprintf("apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: %[1]s, namespace: %[2]s}\n"+
			"spec: {interval: 1h, prune: true, path: ./none, targetNamespace: %[2]s, sourceRef: {kind: GitRepository, name: %[3]s}%[4]s}\n", name, s.namespace, sourceName, more)
	}
	r1 := s.push(map[string]string{"kustomization.yaml": "resources: [lasts.yaml, undone.yaml]\n",
		"lasts.yaml": nested("lasts", ""), "undone.yaml": nested("undone", ", suspend: false"), "none/cm.yaml": configMap("none", "1")})
	s.follow()
	s.deploy("parent", func(ks *v1.Kustomization) { ks.Spec.Wait = false })
	s.awaitReady("parent", r1)
	says(t, s.holdfast(0, "suspend", "lasts"), s.namespace+"/parent, applies it out of Git", "stays suspended")
	says(t, s.holdfast(0, "suspend", "undone"), s.namespace+"/parent, sets spec.suspend itself and undoes this")
	says(t, s.holdfast(0, "reconcile", "parent", "--wait"), "asked")
	if !s.mustGet("lasts").Spec.Suspend || s.mustGet("undone").Spec.Suspend {
		t.Error("the parent did not do what was said of it")
	}
	s.awaitCondition("undone", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

// TestWaitTreeAndEvents: a pipeline learns what became of its commit, and the tree and the events show what is there and what happened.
func TestWaitTreeAndEvents(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	commit := func(revision string) string { return revision[strings.LastIndex(revision, ":")+1:] }
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	says(t, s.holdfast(5, "wait", "--commit", commit(r1)), "nothing to wait for in namespace "+s.namespace)
	s.follow()
	s.deploy("web")
	says(t, s.holdfast(0, "wait", "--source", sourceName, "--commit", commit(r1)[:7]), s.namespace+"/web  Healthy with "+report.Short(r1), "1 healthy")
	says(t, s.holdfast(0, "tree", "web"), "Kustomization "+s.namespace+"/web  Healthy  "+report.Short(r1), "`-- ConfigMap "+s.namespace+"/a")
	s.awaitEvent("web", "Normal", "ReconciliationSucceeded")
	says(t, s.holdfast(0, "events", "web"), "Kustomization/web", "ReconciliationSucceeded")
	says(t, s.holdfast(2, "tree", "nothere"), "no Kustomization nothere")
	says(t, s.holdfast(4, "wait", "web", "--commit", strings.Repeat("f", 40), "--timeout", "2s"), "not tried yet", "the time ran out")

	r2 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "kustomization.yaml": "resources: [none.yaml]\n"})
	says(t, s.holdfast(2, "wait", "web", "--commit", commit(r2), "-o", "json"), `"verdict":"Failed"`, "1 failed")
	s.holdfast(0, "suspend", "web")
	says(t, s.holdfast(5, "wait", "web", "--commit", commit(r2)), "paused", "end that first")
}

// TestUninstallKeepsWhatWasDeployed: exactly the controller and its rights go. What has their name and not their labels stays, and so does
// all that holds something: definitions, the namespace, Kustomizations and what these deployed.
func TestUninstallKeepsWhatWasDeployed(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("web")
	s.awaitReady("web", r1)
	uid := s.uid(s.cm("a"))
	// The image can't be pulled, so that no second controller gets to work.
	objects, err := install.Objects(install.Options{Namespace: s.namespace, Image: "holdfast:missing", Profile: install.ProfileLeast})
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "Namespace"
	})
	for _, o := range objects {
		if o.GetKind() == "ServiceAccount" {
			labels := o.GetLabels()
			delete(labels, "app.kubernetes.io/component")
			o.SetLabels(labels)
		}
	}
	t.Cleanup(func() { uninstall(t, objects) })
	if err := install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	says(t, s.holdfast(64, "uninstall"), "--yes")
	says(t, s.holdfast(0, "uninstall", "--plan"), "DELETES\n  Deployment "+s.namespace+"/holdfast", "ServiceAccount "+s.namespace+"/holdfast", "WITHOUT THE LABELS",
		"hangs at its finalizer")
	for _, o := range objects {
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopy()); err != nil {
			t.Errorf("--plan changed %s: %v", o.GetName(), err)
		}
	}
	says(t, s.holdfast(0, "uninstall", "-y"), "DELETED\n  Deployment "+s.namespace+"/holdfast")
	for _, o := range objects {
		err := kube.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopy())
		if left := o.GetKind() == "ServiceAccount"; left && err != nil || !left && !apierrors.IsNotFound(err) {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	s.sameUID(s.cm("a"), uid)
	s.awaitReady("web", r1)
	says(t, s.holdfast(0, "uninstall", "-y"), "is not installed in namespace "+s.namespace)
}
