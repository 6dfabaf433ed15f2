package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/kustomize"
	"github.com/fluxcd/pkg/ssa"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// fluxCluster is a namespace as Flux leaves it: objects that kustomize-controller applied, and Kustomizations with the status that
// it wrote. All of it is made with Flux's own libraries, and under the names of its field managers.
type fluxCluster struct {
	*scenario
	tree     string
	server   *sourceController
	artifact *fluxmeta.Artifact
}

// newFluxCluster publishes a tree of files as the source-controller of Flux does, without a controller of Kustomizations.
func newFluxCluster(t *testing.T, files func(namespace string) map[string]string) *fluxCluster {
	t.Helper()
	s := newScenario(t)
	f := &fluxCluster{scenario: s, tree: t.TempDir()}
	tree := files(s.namespace)
	for name, content := range tree {
		file := filepath.Join(f.tree, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create(t, newSource(s.namespace, "GitRepository"))
	f.server = newSourceController(t)
	f.publish("main@sha1:1f0c9d2", tree)
	return f
}

// publish offers a revision, as source-controller does.
func (f *fluxCluster) publish(revision string, files map[string]string) {
	f.t.Helper()
	f.artifact = f.server.store("/"+revision+".tar.gz", revision, files)
	f.offer("GitRepository", f.artifact)
	f.fetched()
}

// fetched says that the source is ready, as source-controller does.
func (f *fluxCluster) fetched() {
	f.t.Helper()
	source := &sourcev1.GitRepository{}
	if err := kube.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: sourceName}, source); err != nil {
		f.t.Fatal(err)
	}
	source.Status.ObservedGeneration = source.Generation
	source.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded",
		Message: "stored artifact for revision '" + f.artifact.Revision + "'", LastTransitionTime: metav1.Now(), ObservedGeneration: source.Generation}}
	if err := kube.Status().Update(f.t.Context(), source); err != nil {
		f.t.Fatal(err)
	}
}

// The environment variables that make this program a build by the library of Flux, and nothing else.
const (
	buildRoot = "HOLDFAST_TEST_BUILD_ROOT"
	buildDir  = "HOLDFAST_TEST_BUILD_DIR"
)

// runFluxBuild prints what a directory builds to.
func runFluxBuild(root, dir string) error {
	rendered, err := kustomize.SecureBuild(root, dir, false)
	if err != nil {
		return err
	}
	content, err := rendered.AsYaml()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(content)
	return err
}

// build renders a path of the tree with the library of Flux.
func (f *fluxCluster) build(dir string) []*unstructured.Unstructured {
	f.t.Helper()
	// In a process of its own: the library resets what is one for the whole process, while holdfast builds in this one.
	command := exec.CommandContext(f.t.Context(), os.Args[0]) //nolint:gosec // this very program
	command.Env = append(os.Environ(), buildRoot+"="+f.tree, buildDir+"="+filepath.Join(f.tree, filepath.FromSlash(dir)))
	command.Stderr = os.Stderr
	content, err := command.Output()
	if err != nil {
		f.t.Fatal(err)
	}
	objects, err := ssautils.ReadObjects(strings.NewReader(string(content)))
	if err != nil {
		f.t.Fatal(err)
	}
	return objects
}

// apply applies what a Kustomization builds, as kustomize-controller does, except for what the function leaves out.
func (f *fluxCluster) apply(ks string, objects []*unstructured.Unstructured, leaveOut func(*unstructured.Unstructured) bool) []fluxv1.ResourceRef {
	f.t.Helper()
	manager := ssa.NewResourceManager(kube, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	manager.SetOwnerLabels(objects, ks, f.namespace)
	var entries []fluxv1.ResourceRef
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		entries = append(entries, fluxv1.ResourceRef{
			ID:      strings.Join([]string{obj.GetNamespace(), obj.GetName(), gvk.Group, gvk.Kind}, "_"),
			Version: gvk.Version,
		})
		if leaveOut(obj) {
			continue
		}
		if _, err := manager.Apply(f.t.Context(), obj.DeepCopy(), ssa.DefaultApplyOptions()); err != nil {
			f.t.Fatalf("apply %s as Flux does: %v", obj.GetName(), err)
		}
	}
	return entries
}

// reconciled writes finalizer and status of a Kustomization as kustomize-controller does after a success.
func (f *fluxCluster) reconciled(name string, entries []fluxv1.ResourceRef) *v1.Kustomization {
	f.t.Helper()
	const manager = client.FieldOwner("gotk-kustomize-controller")
	ks := f.mustGet(name)
	before := ks.DeepCopy()
	ks.Finalizers = []string{"finalizers.fluxcd.io"}
	if err := kube.Patch(f.t.Context(), ks, client.MergeFrom(before), manager); err != nil {
		f.t.Fatal(err)
	}
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	before = ks.DeepCopy()
	ks.Status.KustomizationStatus = fluxv1.KustomizationStatus{
		ObservedGeneration: ks.Generation, LastAppliedRevision: f.artifact.Revision, LastAttemptedRevision: f.artifact.Revision,
		Inventory: &fluxv1.ResourceInventory{Entries: entries},
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "ReconciliationSucceeded", Message: "Applied revision: " + f.artifact.Revision,
				LastTransitionTime: metav1.NewTime(at), ObservedGeneration: ks.Generation},
			{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "Health check passed in 2.1s",
				LastTransitionTime: metav1.NewTime(at), ObservedGeneration: ks.Generation},
		},
	}
	older := map[string]string{"revision": "main@sha1:0aa91ce"}
	ks.Status.History.Upsert("sha256:"+strings.Repeat("0", 64), at.Add(-time.Hour), 3*time.Second, "HealthCheckFailed", older)
	ks.Status.History.Upsert("sha256:"+strings.Repeat("1", 64), at, 2*time.Second, "ReconciliationSucceeded", older)
	if err := kube.Status().Patch(f.t.Context(), ks, client.MergeFrom(before), manager); err != nil {
		f.t.Fatal(err)
	}
	return f.mustGet(name)
}

// stopFlux leaves what kustomize-controller leaves when it ends: its lease, given up.
func (f *fluxCluster) stopFlux() {
	f.t.Helper()
	create(f.t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kustomize-controller-leader-election"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(""), LeaseDurationSeconds: ptr.To(int32(1)), RenewTime: ptr.To(metav1.NowMicro()),
			AcquireTime: ptr.To(metav1.NowMicro()), LeaseTransitions: ptr.To(int32(1)),
		},
	})
}

// settled waits until the Deployments of some objects are rolled out and Kubernetes has nothing more to say about them.
func (f *fluxCluster) settled(objects []*unstructured.Unstructured) {
	f.t.Helper()
	for _, obj := range objects {
		if obj.GetKind() != "Deployment" {
			continue
		}
		eventually(f.t, within, "Deployment "+obj.GetName()+" is rolled out", func(ctx context.Context) error {
			d, err := f.getDeployment(ctx, obj.GetName())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
				return c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable"
			}) {
				return fmt.Errorf("its conditions are %v", d.Status.Conditions)
			}
			if s := d.Status; s.ObservedGeneration != d.Generation || s.Replicas != *d.Spec.Replicas || s.AvailableReplicas != *d.Spec.Replicas || ptr.Deref(s.TerminatingReplicas, 0) > 0 {
				return fmt.Errorf("its status is %+v", s)
			}
			return nil
		})
	}
}

// versions are the resource versions of objects; of a Kustomization, whose status is no one's manifest, the generation.
func (f *fluxCluster) versions(objects []*unstructured.Unstructured) map[string]string {
	f.t.Helper()
	found := map[string]string{}
	for _, obj := range objects {
		live := obj.DeepCopy()
		if err := kube.Get(f.t.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
			f.t.Fatal(err)
		}
		version := live.GetResourceVersion()
		if obj.GetKind() == v1.KustomizationKind || obj.GetKind() == "GitRepository" {
			version = fmt.Sprintf("generation %d of %s, %v", live.GetGeneration(), live.GetUID(), live.GetLabels())
		}
		found[obj.GetKind()+"/"+obj.GetName()] = version
	}
	return found
}

// definitionOfFlux is the stock definition of Kustomizations.
func definitionOfFlux(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "internal", "install", "testdata", "flux", "kustomize.toolkit.fluxcd.io_kustomizations.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// bootstrapped is a repository as `flux bootstrap` makes it, in form: clusters/, infrastructure/ and apps/, and Flux itself beside the
// Kustomization that applies all of it, itself too.
func bootstrapped(t *testing.T) func(namespace string) map[string]string {
	return func(namespace string) map[string]string {
		named := func(manifest string) string { return strings.ReplaceAll(manifest, "NAMESPACE", namespace) }
		const self = "clusters/test/flux-system"
		return map[string]string{
			path.Join(self, "kustomization.yaml"):      "resources: [gotk-components.yaml, gotk-sync.yaml]\n",
			path.Join(self, "gotk-components.yaml"):    named(gotkComponents) + "---\n" + strings.TrimPrefix(definitionOfFlux(t), "---\n"),
			path.Join(self, "gotk-sync.yaml"):          named(gotkSync),
			"clusters/test/kustomization.yaml":         "resources: [flux-system, apps.yaml]\n",
			"clusters/test/apps.yaml":                  named(appsKustomization),
			"apps/kustomization.yaml":                  named("namespace: NAMESPACE\nresources: [web]\n"),
			"apps/web/kustomization.yaml":              webApp("1", goodImage)["kustomization.yaml"] + "commonAnnotations: {team: shop}\n",
			"apps/web/web.yaml":                        deployment("web", goodImage, "\n        envFrom:\n        - configMapRef: {name: app}"),
			"infrastructure/base/kustomization.yaml":   "resources: [quota.yaml]\n",
			"infrastructure/base/quota.yaml":           "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: \"50\"}}\n",
			"infrastructure/unused/kustomization.yaml": "resources: []\n",
		}
	}
}

const gotkComponents = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: kustomize-controller
  namespace: NAMESPACE
  labels: {app.kubernetes.io/component: kustomize-controller, app.kubernetes.io/instance: NAMESPACE, app.kubernetes.io/part-of: flux, app.kubernetes.io/version: v2.9.0}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: kustomize-controller
  namespace: NAMESPACE
  labels: {app.kubernetes.io/component: kustomize-controller, app.kubernetes.io/instance: NAMESPACE, app.kubernetes.io/part-of: flux, app.kubernetes.io/version: v2.9.0, control-plane: controller}
spec:
  replicas: 1
  selector: {matchLabels: {app: kustomize-controller}}
  template:
    metadata:
      annotations: {prometheus.io/port: "8080", prometheus.io/scrape: "true"}
      labels: {app: kustomize-controller, app.kubernetes.io/component: kustomize-controller, app.kubernetes.io/part-of: flux}
    spec:
      serviceAccountName: kustomize-controller
      terminationGracePeriodSeconds: 1
      containers:
      - name: manager
        image: ghcr.io/fluxcd/kustomize-controller:v1.9.4
        args: [--events-addr=http://notification-controller/, --watch-all-namespaces=true, --log-level=info, --log-encoding=json, --enable-leader-election]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: source-controller
  namespace: NAMESPACE
  labels: {app.kubernetes.io/component: source-controller, app.kubernetes.io/instance: NAMESPACE, app.kubernetes.io/part-of: flux, app.kubernetes.io/version: v2.9.0, control-plane: controller}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: source-controller}}
  template:
    metadata:
      labels: {app: source-controller}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: manager
        image: ghcr.io/fluxcd/source-controller:v1.9.0
`

const gotkSync = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: app
  namespace: NAMESPACE
spec:
  interval: 1h0m0s
  url: https://git.example/app
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: flux-system
  namespace: NAMESPACE
spec:
  interval: 10m0s
  path: ./clusters/test
  prune: true
  sourceRef:
    kind: GitRepository
    name: app
`

const appsKustomization = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: apps
  namespace: NAMESPACE
spec:
  interval: 10m0s
  retryInterval: 2s
  timeout: 5m0s
  path: ./apps
  prune: true
  wait: true
  sourceRef:
    kind: GitRepository
    name: app
`
