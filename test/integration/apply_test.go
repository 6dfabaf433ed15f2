package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// patchAs changes an object as another writer would.
func (s *scenario) patchAs(manager string, object client.Object, patch string) {
	s.t.Helper()
	if err := kube.Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager)); err != nil {
		s.t.Fatalf("patch %s as %s: %v", object.GetName(), manager, err)
	}
}

// applied waits until a ConfigMap of the scenario is as wanted.
func (s *scenario) applied(name, what string, check func(*corev1.ConfigMap) bool) {
	s.t.Helper()
	eventually(s.t, within, "ConfigMap "+name+" "+what, func(ctx context.Context) error {
		cm := &corev1.ConfigMap{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, cm); err != nil {
			return err
		}
		if !check(cm) {
			return fmt.Errorf("labels %v, annotations %v, data %v", cm.Labels, cm.Annotations, cm.Data)
		}
		return nil
	})
}

// P86: what a manager named by --override-manager adds is taken away, what another one adds is left. P87: kubectl's
// additions and the annotations and labels of older tools go in any case; P80: not where the object says ssa: Merge.
func TestFieldsOfOtherManagers(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Kustomization.OverrideManagers = []string{"meddler"} })
	merged := strings.Replace(configMap("merged", "1"), "{name: merged}", "{name: merged, annotations: {kustomize.toolkit.fluxcd.io/ssa: Merge}}", 1)
	rev := s.push(map[string]string{"a.yaml": configMap("a", "1"), "merged.yaml": merged})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", rev)
	const leftovers = `{"metadata":{"annotations":{"fluxcd.io/sync-checksum":"x","kustomize.toolkit.fluxcd.io/checksum":"x",` +
		`"kubectl.kubernetes.io/last-applied-configuration":"{}"},"labels":{"fluxcd.io/sync-gc-mark":"x"}},"data":{"kubectl":"1"}}`
	for _, name := range []string{"a", "merged"} {
		s.patchAs("meddler", s.cm(name), `{"data":{"meddler":"1"}}`)
		s.patchAs("neighbour", s.cm(name), `{"data":{"neighbour":"1"}}`)
		s.patchAs("kubectl-edit", s.cm(name), leftovers)
	}
	s.request("app")
	s.applied("a", "has what its manifest and the neighbour say", func(cm *corev1.ConfigMap) bool {
		return len(cm.Data) == 2 && cm.Data["k"] == "1" && cm.Data["neighbour"] == "1" && len(cm.Annotations) == 0 && cm.Labels["fluxcd.io/sync-gc-mark"] == ""
	})
	s.awaitReady("app", rev)
	if cm := s.cm("merged"); kube.Get(t.Context(), client.ObjectKeyFromObject(cm), cm) != nil || len(cm.Data) != 4 {
		t.Errorf("with ssa: Merge the data is %v", cm.Data)
	}
}

// P90, P91: spec.ignore leaves fields to others, by pointers and, if wanted, a target; what else differs is corrected, and
// leaves the ignored field as it is. P89: without the rule the drift is corrected.
func TestDriftIgnoreRules(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	rev := s.push(map[string]string{"web.yaml": deployment("web", goodImage, ""), "api.yaml": deployment("api", goodImage, "")})
	s.follow()
	s.deploy("app", every(time.Second), func(ks *v1.Kustomization) {
		ks.Spec.Ignore = []fluxv1.IgnoreRule{{Paths: []string{"/spec/replicas"}, Target: &kustomize.Selector{Kind: "Deployment", Name: "we.*"}}}
	})
	s.awaitReady("app", rev)
	for _, name := range []string{"web", "api"} {
		s.patchAs("scaler", s.deploymentOf(name), `{"spec":{"replicas":1}}`)
	}
	replicas := func(name string, want int32) {
		t.Helper()
		eventually(t, within, name+" is scaled", func(ctx context.Context) error {
			d, err := s.getDeployment(ctx, name)
			if err == nil && *d.Spec.Replicas != want {
				err = fmt.Errorf("it has %d replicas", *d.Spec.Replicas)
			}
			return err
		})
	}
	replicas("api", 2)
	replicas("web", 1)
	s.patchAs("meddler", s.deploymentOf("web"), `{"spec":{"minReadySeconds":7}}`)
	r2 := s.push(map[string]string{"web.yaml": replaceOnce(deployment("web", goodImage, ""), "replicas: 2", "replicas: 2\n  minReadySeconds: 1"), "api.yaml": deployment("api", goodImage, "")})
	s.awaitReady("app", r2)
	web := &appsv1.Deployment{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, web); err != nil {
		t.Fatal(err)
	}
	if web.Spec.MinReadySeconds != 1 || *web.Spec.Replicas != 1 {
		t.Errorf("minReadySeconds %d, replicas %d; want 1 and 1", web.Spec.MinReadySeconds, *web.Spec.Replicas)
	}
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Ignore = nil })
	replicas("web", 2)
}

// P76: commonMetadata wins over the manifests, and goes when the field does.
func TestCommonMetadata(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	rev := s.push(map[string]string{"a.yaml": strings.Replace(configMap("a", "1"), "{name: a}", "{name: a, labels: {team: git, own: git}, annotations: {note: git}}", 1)})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) {
		ks.Spec.CommonMetadata = &fluxv1.CommonMetadata{Labels: map[string]string{"team": "ks"}, Annotations: map[string]string{"note": "ks", "more": "ks"}}
	})
	s.awaitReady("app", rev)
	s.applied("a", "has the common metadata", func(cm *corev1.ConfigMap) bool {
		return cm.Labels["team"] == "ks" && cm.Labels["own"] == "git" && cm.Annotations["note"] == "ks" && cm.Annotations["more"] == "ks"
	})
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.CommonMetadata = nil })
	s.applied("a", "has its own metadata", func(cm *corev1.ConfigMap) bool {
		return cm.Labels["team"] == "git" && cm.Annotations["note"] == "git" && cm.Annotations["more"] == ""
	})
}

// P81, P83, P84: reconcile: disabled and ssa: IfNotPresent, as label or annotation, in any case, on the live object too; resuming
// brings the manifest back. P82: ssa: Ignore keeps an object out of apply and health, and its entry stays while it is in the source.
func TestControlKeys(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := func(value string) map[string]string {
		once := replaceOnce(configMap("once", value), "{name: once}", "{name: once, annotations: {kustomize.toolkit.fluxcd.io/ssa: IfNotPresent}}")
		ignored := replaceOnce(configMap("ignored", value), "{name: ignored}", "{name: ignored, labels: {kustomize.toolkit.fluxcd.io/ssa: Ignore}}")
		return map[string]string{"once.yaml": once, "ignored.yaml": ignored, "live.yaml": configMap("live", value)}
	}
	r1 := s.push(files("1"))
	s.follow()
	s.deploy("app")
	ks := s.awaitReady("app", r1)
	if err := inInventory(ks, s.cmID("once"), s.cmID("ignored"), s.cmID("live")); err != nil {
		t.Error(err)
	}
	s.patchAs("person", s.cm("live"), `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/reconcile":"Disabled"}}}`)
	r2 := s.push(files("2"))
	s.awaitReady("app", r2)
	for _, name := range []string{"once", "live"} {
		cm := s.cm(name)
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil || cm.Data["k"] != "1" {
			t.Errorf("%s: %v, %v", name, cm.Data, err)
		}
	}
	if err := isGone(t.Context(), s.cm("ignored")); err != nil {
		t.Errorf("ssa: Ignore was applied: %v", err)
	}
	s.patchAs("person", s.cm("live"), `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/reconcile":null}}}`)
	s.request("app")
	s.applied("live", "follows its manifest again", func(cm *corev1.ConfigMap) bool { return cm.Data["k"] == "2" })
	// IfNotPresent is pruned like any other.
	r3 := s.push(map[string]string{"live.yaml": configMap("live", "2")})
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.cm("once"))
}

// P88: manifests are sent as Flux sends them: stringData as data, a port without protocol as TCP, no status.
func TestNormalizedManifests(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	rev := s.push(map[string]string{
		"s.yaml":   "apiVersion: v1\nkind: Secret\nmetadata: {name: s, creationTimestamp: null}\nstringData: {k: v}\n",
		"svc.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\nstatus: {loadBalancer: {}}\n",
	})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", rev)
	secret, service := &corev1.Secret{}, &corev1.Service{}
	for object, name := range map[client.Object]string{secret: "s", service: "web"} {
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	if string(secret.Data["k"]) != "v" || service.Spec.Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("data %v, ports %v", secret.Data, service.Spec.Ports)
	}
	for _, entry := range append(secret.ManagedFields, service.ManagedFields...) {
		if f := string(entry.FieldsV1.Raw); entry.Manager == "kustomize-controller" && (strings.Contains(f, "stringData") || strings.Contains(f, "f:status")) {
			t.Errorf("managed fields are %s", f)
		}
	}
}

// P93: an apply that is refused says so per object, with what was written before.
func TestApplyErrorsAsInFlux(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.push(map[string]string{"sa.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: first}\n",
		"svc.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 700000}]}\n"})
	s.follow()
	s.deploy("app")
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Service/"+s.namespace+"/web dry-run failed (Invalid): ")
	s.awaitEvent("app", "Warning", "ReconciliationFailed", "Service/"+s.namespace+"/web dry-run failed (Invalid): ", "ServiceAccount/"+s.namespace+"/first created")
	if err := inInventory(ks, s.id("ServiceAccount", "first")); err != nil {
		t.Error(err)
	}
}
