package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/report"
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

// takeover asks what `holdfast takeover --check` asks, about the namespace.
func (f *fluxCluster) takeover() (report.Takeover, string) {
	f.t.Helper()
	answer, err := newInquirer(f.t, env.Config).Takeover(f.t.Context(), f.namespace, []string{app.ControllerKustomization}, time.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	return answer, written(f.t, answer)
}

// handback asks what `holdfast handback --check` asks, about the namespace.
func (s *scenario) handback() (report.Handback, string) {
	s.t.Helper()
	answer, err := newInquirer(s.t, env.Config).Handback(s.t.Context(), s.namespace, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, written(s.t, answer)
}

func written(t *testing.T, answer interface {
	WriteText(io.Writer, report.TextOptions) error
}) string {
	t.Helper()
	var text bytes.Buffer
	if err := answer.WriteText(&text, report.TextOptions{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// What Flux left is told before holdfast takes over, and is what happens then: a living Flux is in the way; of what is left some is made
// again, some is pruned last, and what is somebody else's stays.
func TestTakeoverOfWhatFluxLeft(t *testing.T) {
	t.Parallel()
	f := newFluxCluster(t, func(namespace string) map[string]string {
		files := map[string]string{"kustomization.yaml": "namespace: " + namespace + "\nresources: [web.yaml, kept.yaml, gone.yaml]\n"}
		files["web.yaml"] = deployment("web", goodImage, "\n        envFrom:\n        - configMapRef: {name: used}")
		for _, name := range []string{"kept", "gone"} {
			files[name+".yaml"] = configMap(name, "1")
		}
		return files
	})
	f.deploy("app", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" })
	objects := f.build(".")
	// A revision before had more: one that nobody uses, one that the pods use, one that somebody else took over.
	for _, name := range []string{"unused", "used", "taken"} {
		obj := objects[0].DeepCopy()
		obj.SetUnstructuredContent(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "1"}})
		obj.SetName(name)
		obj.SetNamespace(f.namespace)
		objects = append(objects, obj)
	}
	f.reconciled("app", f.apply("app", objects, nothing))
	f.settled(objects)
	taken := f.cm("taken")
	f.uid(taken)
	taken.Labels[v1.OwnerNameLabel] = "elsewhere"
	if err := kube.Update(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), f.cm("gone")); err != nil {
		t.Fatal(err)
	}

	answer, text := f.takeover()
	says(t, text, "Not ready: 1 thing", "it wrote the status of Kustomization "+f.namespace+"/app", "kubectl scale deployment kustomize-controller",
		"ConfigMap "+f.namespace+"/gone", "it does not exist", "ConfigMap "+f.namespace+"/taken", "its owner labels name Kustomization "+f.namespace+"/elsewhere")
	if got := answer.Kustomizations[0]; got.Objects != 6 || got.Same != 4 || got.Left != 2 {
		t.Errorf("%+v", got)
	}
	f.stopFlux()
	answer, text = f.takeover()
	says(t, text, "Ready: nothing keeps holdfast from taking over 1 Kustomization.", "holdfast install --controllers=kustomization")
	if !answer.Ready || answer.Definition != report.DefinitionOwn {
		t.Errorf("%+v", answer)
	}

	uids := map[string]string{}
	for _, name := range []string{"kept", "used", "taken"} {
		uids[name] = f.uid(f.cm(name))
	}
	f.run(besideFlux)
	f.awaitReady("app", f.artifact.Revision)
	f.awaitRetained("app", f.cmID("used"), v1.RetainedInUse)
	eventuallyGone(t, within, f.cm("unused"))
	f.awaitDropped("app", f.cmID("taken"))
	f.stays(f.cm("gone"))
	for name, uid := range uids {
		f.sameUID(f.cm(name), uid)
	}

	// Flux would delete what the pods use, so it may not have it back before they are gone.
	back, text := f.handback()
	says(t, text, "Not ready: 1 thing", "Kustomization "+f.namespace+"/app keeps 1 object that Flux deletes at once", "ConfigMap "+f.namespace+"/used", "InUse")
	if back.Ready || len(back.Deletes) != 1 {
		t.Errorf("%+v", back)
	}
	f.annotate(f.cm("used"), "kustomize.toolkit.fluxcd.io/prune", "disabled")
	f.request("app")
	f.awaitRetained("app", f.cmID("used"), v1.RetainedPruneDisabled)
	if back, text = f.handback(); !back.Ready {
		t.Errorf("after the object was marked:\n%s", text)
	}
	says(t, text, "Ready: Flux may take over again", "flux install, or flux bootstrap")
}

// annotate sets an annotation as a person does.
func (s *scenario) annotate(object client.Object, key, value string) {
	s.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := kube.Patch(s.t.Context(), object, patch); err != nil {
		s.t.Fatal(err)
	}
}

// The check of a bootstrapped cluster names Flux itself, in whatever state it is, and prints the patch that makes the repository agree.
func TestTakeoverCheckOfABootstrappedRepository(t *testing.T) {
	t.Parallel()
	o := newTakenOver(t)
	o.stopFlux()
	answer, text := o.takeover()
	says(t, text, "Ready", "IN GIT", "The repository of "+o.namespace+"/flux-system holds Flux itself", "ssa, value: Ignore", "/spec/replicas, value: 0")
	if !answer.Ready || answer.Kustomizations[1].Left != 0 {
		t.Errorf("%+v", answer)
	}
	o.scale("kustomize-controller", 1)
	if answer, text = o.takeover(); answer.Ready {
		t.Error("a controller that is to run is not in the way")
	}
	says(t, text, "Deployment/"+o.namespace+"/kustomize-controller runs kustomize-controller, or will", "kubectl scale deployment kustomize-controller -n "+o.namespace+" --replicas=0")

	// What the patch makes of the manifests is left alone in silence, and what it makes of the controller is applied.
	var patched []map[string]any
	if err := yaml.Unmarshal([]byte(strings.TrimPrefix(answer.Patch, "patches:\n")), &patched); err != nil || len(patched) != 2 {
		t.Fatalf("the patch is no YAML: %v\n%s", err, answer.Patch)
	}
	o.run(besideFlux)
	o.awaitMessage("flux-system", v1.RivalSkippedCondition, metav1.ConditionTrue, v1.ReasonRivalSkipped)
	files := bootstrapped(t)(o.namespace)
	files["clusters/test/flux-system/kustomization.yaml"] += answer.Patch
	o.publish("main@sha1:8be41a7", files)
	o.awaitReady("flux-system", "main@sha1:8be41a7")
	o.await("flux-system", "without the condition", func(ks *v1.Kustomization) error {
		if meta.FindStatusCondition(ks.Status.Conditions, v1.RivalSkippedCondition) != nil {
			return errors.New("it is there")
		}
		return nil
	})
	if d, err := o.getDeployment(t.Context(), "kustomize-controller"); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("kustomize-controller has %v replicas (%v), want what the patch says", d.Spec.Replicas, err)
	}
	checkDefinition(t)
	if answer, text = o.takeover(); !answer.Ready || answer.Patch != "" {
		t.Errorf("after all that:\n%s", text)
	}
}
