package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// settledManifests are objects of kinds with and without a generation, a status, defaults and lists with keys.
const settledManifests = `apiVersion: v1
kind: ConfigMap
metadata: {name: config, labels: {app: x, tier: y}, annotations: {note: a}}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: Secret
metadata: {name: secret, labels: {app: x}}
data: {a: MQ==}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: account, labels: {app: x}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: role, labels: {app: x}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: Service
metadata: {name: service, labels: {app: x}, annotations: {note: a}}
spec: {selector: {app: x}, ports: [{name: http, port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: workload, labels: {app: x}}
spec:
  replicas: 0
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: main, image: "registry.example/main:1", env: [{name: A, value: "1"}]}]}
`

// edits are what others do to an object, as merge patches. Some of them change nothing that an apply sets.
var edits = []string{
	`{"metadata":{"labels":{"app":"changed"}}}`,
	`{"metadata":{"labels":{"app":null}}}`,
	`{"metadata":{"labels":{"added":"by-hand"}}}`,
	`{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":null}}}`,
	`{"metadata":{"annotations":{"note":"changed"}}}`,
	`{"metadata":{"annotations":{"note":null}}}`,
	`{"metadata":{"annotations":{"kustomize.toolkit.fluxcd.io/ssa":"Merge"}}}`,
	`{"metadata":{"annotations":{"kustomize.toolkit.fluxcd.io/ssa":null}}}`,
	`{"metadata":{"annotations":{"kustomize.toolkit.fluxcd.io/reconcile":"disabled"}}}`,
	`{"metadata":{"annotations":{"kustomize.toolkit.fluxcd.io/reconcile":null}}}`,
	`{"metadata":{"managedFields":[{}]}}`,
	`{"metadata":{"finalizers":[]}}`,
}

// kindEdits are those that only some kinds can take.
var kindEdits = map[string][]string{
	"ConfigMap":      {`{"data":{"a":"changed"}}`, `{"data":{"a":null}}`, `{"data":{"c":"added"}}`, `{"data":{"a":"1"}}`, `{"binaryData":{"d":"MQ=="}}`},
	"Secret":         {`{"data":{"a":"Mg=="}}`, `{"data":{"a":null}}`, `{"stringData":{"b":"added"}}`},
	"ServiceAccount": {`{"automountServiceAccountToken":false}`, `{"imagePullSecrets":[{"name":"pull"}]}`},
	"Role":           {`{"rules":[]}`, `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`},
	"Service": {`{"spec":{"selector":{"app":"changed"}}}`, `{"spec":{"ports":[{"name":"http","port":80,"targetPort":8080}]}}`, `{"spec":{"selector":{"extra":"e"}}}`,
		`{"spec":{"sessionAffinity":"ClientIP"}}`},
	"Deployment": {`{"spec":{"replicas":1}}`, `{"spec":{"paused":true}}`, `{"spec":{"revisionHistoryLimit":3}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"restarted":"now"}}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/main:2"}]}}}}`},
}

// twin is one of two sets of the same objects, in a namespace of its own.
type twin struct {
	t         *testing.T
	namespace string
	objects   []*unstructured.Unstructured
	client    *dryRunCounter
	settled   execute.Settled
}

// dryRunCounter counts dry-runs.
type dryRunCounter struct {
	client.Client
	n atomic.Int32
}

func (c *dryRunCounter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o := client.PatchOptions{}
	o.ApplyOptions(opts)
	if len(o.DryRun) > 0 {
		c.n.Add(1)
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

func newTwin(t *testing.T, settled execute.Settled) *twin {
	t.Helper()
	w := &twin{t: t, namespace: newNamespace(t), client: &dryRunCounter{Client: kube}, settled: settled}
	for _, text := range strings.Split(settledManifests, "---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
			t.Fatal(err)
		}
		obj.SetNamespace(w.namespace)
		w.objects = append(w.objects, obj)
	}
	execute.SetOwnerLabels(w.objects, client.ObjectKey{Namespace: w.namespace, Name: "app"})
	return w
}

// apply returns what an apply changed.
func (w *twin) apply() []string {
	w.t.Helper()
	w.client.n.Store(0)
	executor := &execute.Executor{Client: w.client, Concurrency: 4}
	result, err := executor.Apply(w.t.Context(), execute.ApplyRequest{
		Owner: client.ObjectKey{Namespace: w.namespace, Name: "app"}, Objects: w.objects, Settled: w.settled,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	changes := slices.Clone(result.Changes)
	for i := range changes {
		changes[i] = strings.ReplaceAll(changes[i], w.namespace, "twin")
	}
	slices.Sort(changes)
	return changes
}

// edit changes an object as somebody else.
func (w *twin) edit(n int, patch, manager string) {
	w.t.Helper()
	obj := w.objects[n].DeepCopy()
	err := kube.Patch(w.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatalf("%s of %s: %v", patch, obj.GetKind(), err)
	}
}

// takeOver applies the manifest of an object under another name, so that nothing changes but who manages the fields.
func (w *twin) takeOver(n int) {
	w.t.Helper()
	obj := w.objects[n].DeepCopy()
	//nolint:staticcheck // Apply wants typed configurations
	if err := kube.Patch(w.t.Context(), obj, client.Apply, client.FieldOwner("other"), client.ForceOwnership); err != nil {
		w.t.Fatal(err)
	}
}

func (w *twin) delete(n int) {
	w.t.Helper()
	if err := client.IgnoreNotFound(kube.Delete(w.t.Context(), w.objects[n].DeepCopy())); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, within, "the object is gone", func(ctx context.Context) error {
		obj := w.objects[n].DeepCopy()
		if err := kube.Get(ctx, client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
}

// content is what an apply compares of an object.
func (w *twin) content(n int) map[string]any {
	w.t.Helper()
	obj := w.objects[n].DeepCopy()
	if err := kube.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		w.t.Fatal(err)
	}
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	delete(labels, "kustomize.toolkit.fluxcd.io/namespace")
	delete(annotations, "deployment.kubernetes.io/revision") // written by a controller, some time later
	content := map[string]any{"labels": labels, "annotations": annotations}
	for key, value := range obj.Object {
		if key != "metadata" && key != "status" {
			content[key] = value
		}
	}
	if spec, ok := content["spec"].(map[string]any); ok {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	return content
}

// An apply that leaves out the dry-runs of what it knows corrects exactly what one with a dry-run of every object does, whatever
// others do to the objects. Without edits it sends none.
func TestSettledObjectsAreCorrectedLikeAllOthers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	saving, full := newTwin(t, execute.Settled{}), newTwin(t, nil)
	both := func(do func(*twin)) { do(saving); do(full) }
	both(func(w *twin) { w.apply() })
	eventually(t, within, "an apply sends no dry-runs", func(context.Context) error {
		if changes := saving.apply(); len(changes) > 0 || saving.client.n.Load() > 0 {
			return fmt.Errorf("%d dry-runs, changes %v", saving.client.n.Load(), changes)
		}
		return nil
	})
	for round := range 40 {
		var done []string
		for range random.IntN(4) {
			n := random.IntN(len(saving.objects))
			kind := saving.objects[n].GetKind()
			possible := append(slices.Clone(edits), kindEdits[kind]...)
			switch choice := random.IntN(len(possible) + 2); {
			case choice < len(possible):
				manager := []string{"somebody", "kubectl-edit", "kustomize-controller"}[random.IntN(3)]
				done = append(done, fmt.Sprintf("%s %s as %s", kind, possible[choice], manager))
				both(func(w *twin) { w.edit(n, possible[choice], manager) })
			case choice == len(possible):
				done = append(done, kind+" applied by another")
				both(func(w *twin) { w.takeOver(n) })
			default:
				done = append(done, kind+" deleted")
				both(func(w *twin) { w.delete(n) })
			}
		}
		if got, want := saving.apply(), full.apply(); !slices.Equal(got, want) {
			t.Fatalf("round %d after %v: changed %v, want %v", round, done, got, want)
		}
		for n := range saving.objects {
			if got, want := saving.content(n), full.content(n); !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("round %d after %v: %v, want %v", round, done, got, want)
			}
		}
	}
}
