package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// deadAPI: a group of the API is served by a Service without endpoints, so that its discovery fails. Nothing of it is dropped or
// deleted, also after a restart of the controllers, and a Kustomization that has objects of it says which. All else goes on. When the
// group answers again, everything that waited is done.
func deadAPI(t *testing.T) {
	d := &deadGroup{scenario: newScenario(t), group: uniqueName("dead") + ".example.com", inner: uniqueName("inner")}
	d.define()
	h := startProcess(t, d.namespace, env.Kubeconfig)
	r1 := d.push(d.files(1))
	d.follow()
	for _, name := range []string{"app", "other", "wants", "leaves"} {
		d.deploy(name, at("./"+name), every(time.Second), unwaited, func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" })
	}
	for _, name := range []string{"app", "other", "wants", "leaves"} {
		d.awaitReady(name, r1)
	}
	widgets := map[client.Object]string{}
	for _, name := range []string{"stale", "wanted", "left"} {
		w := newWidget(d.group, d.namespace, name)
		widgets[w] = d.uid(w)
	}

	d.die()
	r2 := d.push(d.files(2))
	leaves := d.mustGet("leaves")
	if err := kube.Delete(t.Context(), leaves); err != nil {
		t.Fatal(err)
	}
	d.awaitReady("other", r2)
	eventuallyGone(t, within, d.cm("other-1"))
	d.stays(d.cm("other-2"))
	eventuallyGone(t, within, d.deploymentOf("web-1"))
	for range 2 {
		d.waits(r2)
		h.kill()
		h = startProcess(t, d.namespace, env.Kubeconfig)
		d.request("app")
	}

	d.live()
	for w, uid := range widgets {
		if name := w.GetName(); name == "wanted" {
			d.sameUID(w, uid)
		}
	}
	eventuallyGone(t, within, newWidget(d.group, d.namespace, "stale"))
	eventuallyGone(t, within, d.cm("app-1"))
	d.await("app", "without what it kept", func(ks *v1.Kustomization) error {
		if n := len(ks.Status.Rollout.Retained); n > 0 {
			return fmt.Errorf("it keeps %v", ks.Status.Rollout.Retained)
		}
		return conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue)
	})
	d.awaitReady("wants", r2)
	eventuallyGone(t, within, d.cm("wants-1"))
	eventuallyGone(t, within, leaves)
	eventuallyGone(t, within, newWidget(d.group, d.namespace, "left"))
	eventuallyGone(t, within, d.cm("leaves"))
	eventuallyGone(t, within, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.inner}})
}

// deadGroup is a scenario with custom resources of a group that dies.
type deadGroup struct {
	*scenario
	group, inner string
}

// files are the directories of four Kustomizations: "app" loses its custom resource, "other" has none, "wants" still wants its own,
// and "leaves" is about to be deleted.
func (d *deadGroup) files(revision int) map[string]string {
	here := func(manifest string) string { return inNamespace(d.namespace, manifest) }
	web := fmt.Sprintf("web-%d", revision)
	files := map[string]string{
		"app/keep.yaml":       here(configMap(fmt.Sprintf("app-%d", revision), "1")),
		"app/web.yaml":        here(deployment(web, goodImage, "")),
		"other/c.yaml":        here(configMap(fmt.Sprintf("other-%d", revision), "1")),
		"wants/c.yaml":        here(configMap(fmt.Sprintf("wants-%d", revision), "1")),
		"wants/w.yaml":        here(widget(d.group, "wanted", "1")),
		"leaves/w.yaml":       here(widget(d.group, "left", "1")),
		"leaves/c.yaml":       here(configMap("leaves", "1")),
		"leaves/ns.yaml":      fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", d.inner),
		"app/stale.yaml":      here(widget(d.group, "stale", "1")),
		"app/configured.yaml": here(configMap("configured", "1")),
	}
	if revision > 1 {
		delete(files, "app/stale.yaml")
	}
	return files
}

// waits checks what is said while the group is dead, and that nothing is dropped.
func (d *deadGroup) waits(r2 string) {
	d.t.Helper()
	d.awaitReady("app", r2)
	stale := d.id(d.group+"/Widget", "stale")
	kept := d.awaitRetained("app", stale, v1.RetainedUnverified)
	if !strings.Contains(kept.Message, d.group) {
		d.t.Errorf("the custom resource is kept because: %s", kept.Message)
	}
	// The custom resources of a Kustomization can be users of its config, and they can't be listed.
	kept = d.awaitRetained("app", d.cmID("app-1"), v1.RetainedUnverified)
	if !strings.Contains(kept.Message, d.group) {
		d.t.Errorf("the config is kept because: %s", kept.Message)
	}
	ks := d.awaitMessage("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", "2 Unverified")
	if err := inInventory(ks, stale, d.cmID("app-1"), d.cmID("app-2"), d.id("apps/Deployment", "web-2")); err != nil {
		d.t.Error(err)
	}

	ks = d.awaitMessage("wants", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Widget", d.group)
	if err := inInventory(ks, d.id(d.group+"/Widget", "wanted"), d.cmID("wants-1")); err != nil {
		d.t.Error(err)
	}
	d.stays(d.cm("wants-1"))

	ks = d.await("leaves", "waiting", func(ks *v1.Kustomization) error {
		if ks.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return messageIs(ks, "Reconciling", metav1.ConditionTrue, "Progressing", "waits for", "Widget/"+d.namespace+"/left (Unverified")
	})
	if err := inInventory(ks, d.id(d.group+"/Widget", "left"), "_"+d.inner+"__Namespace"); err != nil {
		d.t.Error(err)
	}
	d.stays(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.inner}})
}

// define makes the group known.
func (d *deadGroup) define() {
	d.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	decode(d.t, widgetCRD(d.group), crd)
	create(d.t, crd)
	eventually(d.t, within, "the group is served", d.isServed)
}

func (d *deadGroup) isServed(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(d.group + "/v1")
	list.SetKind("WidgetList")
	return kube.List(ctx, list, client.InNamespace(d.namespace))
}

// apiService is what says who serves the group.
func (d *deadGroup) apiService() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apiregistration.k8s.io/v1")
	u.SetKind("APIService")
	u.SetName("v1." + d.group)
	return u
}

// die gives the group to a Service without endpoints. The definition's own registration leaves one alone that lacks its label.
func (d *deadGroup) die() {
	d.t.Helper()
	create(d.t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "dead"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}})
	patch := fmt.Sprintf(`{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":null}},
		"spec":{"insecureSkipTLSVerify":true,"service":{"namespace":%q,"name":"dead","port":443}}}`, d.namespace)
	if err := kube.Patch(d.t.Context(), d.apiService(), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, within, "the group is dead", func(ctx context.Context) error {
		if err := d.isServed(ctx); !apierrors.IsServiceUnavailable(err) {
			return fmt.Errorf("it answers with %w", err)
		}
		return nil
	})
}

// live gives the group back to its definition.
func (d *deadGroup) live() {
	d.t.Helper()
	if err := kube.Delete(d.t.Context(), d.apiService()); err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, within, "the group is served again", d.isServed)
}

func decode(t *testing.T, manifest string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
		t.Fatal(err)
	}
}
