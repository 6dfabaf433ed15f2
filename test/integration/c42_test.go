package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestC42: objects were "configured" at every interval though nobody had changed them. What the API server writes otherwise than the
// manifest, and what another controller fills in where the manifest has an empty list, is no drift; a status in Git means nothing.
func TestC42(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	group, hooks := uniqueName("c42")+".example.com", uniqueName("c42")
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: hooks}}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: hooks}}
	part := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: hooks + "-part"}}
	t.Cleanup(func() {
		for _, o := range []client.Object{configuration, role, part, crd} {
			// The test's own context has ended by now, and so has the process. It may never have been made.
			_ = kube.Delete(context.Background(), o)
		}
	})
	h := startProcess(t, s.namespace, env.Kubeconfig)
	definition := strings.Replace(widgetCRD(group), "metadata: {", "metadata: {creationTimestamp: null, ", 1) +
		"status: {acceptedNames: {kind: \"\", plural: \"\"}, conditions: [], storedVersions: []}\n"
	r1 := s.push(map[string]string{
		"crd.yaml": definition,
		"hooks.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: " + hooks + "}\n" +
			"webhooks:\n- name: a.example.com\n  rules: []\n  failurePolicy: Ignore\n  sideEffects: None\n  admissionReviewVersions: [v1]\n" +
			"  clientConfig: {service: {name: none, namespace: " + s.namespace + "}}\n",
		"web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, creationTimestamp: null}\nspec:\n  replicas: 1\n" +
			"  strategy: {type: Recreate, rollingUpdate: null}\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {creationTimestamp: null, labels: {app: web}}\n" +
			"    spec:\n      containers:\n      - name: web\n        image: " + goodImage + "\n        resources: {limits: {cpu: 1000m, memory: 0.5Gi}, requests: {cpu: \"0.1\"}}\n",
		"roles.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + hooks + "}\nrules: []\n" +
			"aggregationRule: {clusterRoleSelectors: [{matchLabels: {part-of: " + hooks + "}}]}\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + hooks + "-part, labels: {part-of: " + hooks + "}}\n" +
			"rules: [{apiGroups: [" + group + "], resources: [widgets], verbs: [get]}]\n",
		"widget.yaml": "apiVersion: " + group + "/v1\nkind: Widget\nmetadata: {name: w}\nspec: {items: [], size: \"1\"}\n",
		"secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: v}\n",
	})
	s.follow()
	s.deploy("app", every(time.Second))
	s.awaitReady("app", r1)

	fill := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "add", "path": "/webhooks/0/rules", "value": `+
		`[{"operations": ["CREATE"], "apiGroups": ["`+group+`"], "apiVersions": ["v1"], "resources": ["widgets"]}]}]`))
	if err := kube.Patch(t.Context(), configuration, fill, client.FieldOwner("filler")); err != nil {
		t.Fatal(err)
	}
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"namespace": s.namespace, "name": "w"}}}
	items := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"items": ["x"]}}`))
	if err := kube.Patch(t.Context(), widget, items, client.FieldOwner("filler")); err != nil {
		t.Fatal(err)
	}
	s.awaitEvent("app", "Normal", "Progressing", "Widget/"+s.namespace+"/w: /spec/items is left to filler")
	s.awaitEvent("app", "Normal", "Progressing", "ClusterRole/"+hooks+": /rules is left to clusterrole-aggregation-controller")
	s.awaitPasses(h, 2)
	versions := func() map[string]string {
		t.Helper()
		all := s.versions()
		for _, o := range []client.Object{configuration, crd, widget, role} {
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
			all[fmt.Sprintf("%T %s", o, o.GetName())] = o.GetResourceVersion()
		}
		return all
	}
	before, events := versions(), s.countEvents("app")
	s.awaitPasses(h, 4)
	after := versions()
	for object, version := range before {
		if after[object] != version {
			t.Errorf("%s was written to: resourceVersion %s, was %s", object, after[object], version)
		}
	}
	if now := s.countEvents("app"); now != events {
		t.Errorf("%d events, %d before", now, events)
	}
	left, _, _ := unstructured.NestedSlice(widget.Object, "spec", "items")
	if len(configuration.Webhooks[0].Rules) != 1 || len(role.Rules) != 1 || len(left) != 1 {
		t.Errorf("there are the rules %v, %v and the items %v", configuration.Webhooks[0].Rules, role.Rules, left)
	}
	if !slices.Equal(crd.Status.StoredVersions, []string{"v1"}) {
		t.Errorf("stored versions %v", crd.Status.StoredVersions)
	}

	// What the manifest does say is still set back, and what was filled in stays.
	set := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"size": "2"}}`))
	if err := kube.Patch(t.Context(), widget, set, client.FieldOwner("filler")); err != nil {
		t.Fatal(err)
	}
	eventually(t, within, "the size is set back", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(widget), widget); err != nil {
			return err
		}
		if spec := fmt.Sprint(widget.Object["spec"]); spec != "map[items:[x] size:1]" {
			return fmt.Errorf("it has %s", spec)
		}
		return nil
	})
	if got := (&corev1.Secret{}); kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "s"}, got) != nil || string(got.Data["k"]) != "v" {
		t.Errorf("the Secret has %q", got.Data)
	}
}
