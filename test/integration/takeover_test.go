package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// takenOver are the parts of a bootstrapped cluster that was Flux's until a moment ago.
type takenOver struct {
	*fluxCluster
	objects  []*unstructured.Unstructured
	versions map[string]string
	statuses map[string]v1.KustomizationStatus
	pods     []string
}

// newTakenOver is a bootstrapped cluster whose kustomize-controller was scaled to zero.
func newTakenOver(t *testing.T) *takenOver {
	t.Helper()
	f := newFluxCluster(t, bootstrapped(t))
	o := &takenOver{fluxCluster: f, statuses: map[string]v1.KustomizationStatus{}}
	system := f.build("clusters/test")
	own := f.apply("flux-system", system, isDefinition)
	f.scale("kustomize-controller", 0)
	apps := f.build("apps")
	o.statuses["apps"] = f.reconciled("apps", f.apply("apps", apps, nothing)).Status
	o.statuses["flux-system"] = f.reconciled("flux-system", own).Status
	o.objects = append(slices.DeleteFunc(system, isDefinition), apps...)
	f.settled(o.objects)
	o.versions, o.pods = f.versions(o.objects), f.podNames()
	return o
}

func isDefinition(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "CustomResourceDefinition"
}

func nothing(*unstructured.Unstructured) bool { return false }

// scale sets the number of pods, as kubectl does.
func (f *fluxCluster) scale(name string, replicas int32) {
	f.t.Helper()
	d, err := f.getDeployment(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	patch := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = &replicas
	if err := kube.Patch(f.t.Context(), d, patch, client.FieldOwner("kubectl-scale")); err != nil {
		f.t.Fatal(err)
	}
}

// podNames are the pods of the namespace that are not leaving.
func (f *fluxCluster) podNames() []string {
	f.t.Helper()
	list := &corev1.PodList{}
	if err := kube.List(f.t.Context(), list, client.InNamespace(f.namespace)); err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Taking over from Flux changes no object: every version stays, and no pod is made anew. Inventories, history and verdicts are kept.
// Flux itself, which a bootstrapped repository holds, is not started again, and its definition does not replace holdfast's.
func TestTakeoverChangesNothing(t *testing.T) {
	t.Parallel()
	o := newTakenOver(t)
	options := testOptions(t, o.namespace)
	besideFlux(&options)
	err := app.Run(t.Context(), env.Config, options)
	if err == nil || !strings.Contains(err.Error(), "kustomize-controller is at work, without a lease: it wrote the status of Kustomization "+o.namespace+"/") {
		t.Fatalf("error %v, want the recent writer named", err)
	}
	o.stopFlux()
	o.checkConformance()
	o.run(besideFlux)
	for _, name := range []string{"flux-system", "apps"} {
		o.awaitReady(name, o.artifact.Revision)
		o.request(name)
		ks := o.awaitReady(name, o.artifact.Revision)
		was := o.statuses[name]
		if got, want := inventoryIDs(ks), idsOf(was); !maps.Equal(got, want) {
			t.Errorf("the inventory of %s is %v, was %v", name, got, want)
		}
		for _, entry := range was.History {
			if !slices.ContainsFunc(ks.Status.History, func(h fluxmeta.Snapshot) bool {
				return h.Digest == entry.Digest && h.LastReconciledStatus == entry.LastReconciledStatus
			}) {
				t.Errorf("the history of %s lost %s: %v", name, entry.Digest, ks.Status.History)
			}
		}
		if ks.Status.Rollout.RetainedCount != 0 {
			t.Errorf("%s keeps %v", name, ks.Status.Rollout.Retained)
		}
	}
	if diff := cmp.Diff(o.versions, o.fluxCluster.versions(o.objects)); diff != "" {
		t.Errorf("versions (-Flux +holdfast):\n%s", diff)
	}
	if diff := cmp.Diff(o.pods, o.podNames()); diff != "" {
		t.Errorf("pods (-Flux +holdfast):\n%s", diff)
	}
	o.awaitMessage("apps", "Healthy", metav1.ConditionTrue, "Succeeded", "Health check passed")
	o.awaitMessage("flux-system", v1.RivalSkippedCondition, metav1.ConditionTrue, v1.ReasonRivalSkipped,
		"Deployment/"+o.namespace+"/kustomize-controller (it would start kustomize-controller",
		"CustomResourceDefinition/kustomizations.kustomize.toolkit.fluxcd.io (it is Flux's own definition")
	o.awaitEvent("flux-system", "Warning", v1.ReasonRivalSkipped, "not applied, and left as it is", "holdfast takeover --check")
	if d, err := o.getDeployment(t.Context(), "kustomize-controller"); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("kustomize-controller was started again: %v, %v", d.Spec.Replicas, err)
	}
	checkDefinition(t)

	// A controller that is not there is not made, and is not waited for.
	if err := kube.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: "kustomize-controller"}}); err != nil {
		t.Fatal(err)
	}
	o.change("flux-system", func(ks *v1.Kustomization) { ks.Spec.Wait = true })
	o.awaitReady("flux-system", o.artifact.Revision)
	if err := isGone(t.Context(), o.deploymentOf("kustomize-controller")); err != nil {
		t.Error(err)
	}
}

// checkDefinition fails the test if the definition of Kustomizations is no longer holdfast's.
func checkDefinition(t *testing.T) {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "kustomizations.kustomize.toolkit.fluxcd.io"}, &crd); err != nil {
		t.Fatal(err)
	}
	if _, ok := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["rollout"]; !ok {
		t.Error("the definition was replaced by that of Flux")
	}
	for _, entry := range crd.ManagedFields {
		if entry.Manager == v1.ApplyManager {
			t.Errorf("the definition was written by %s", entry.Manager)
		}
	}
}

func idsOf(status v1.KustomizationStatus) map[string]bool {
	return inventoryIDs(&v1.Kustomization{Status: status})
}
