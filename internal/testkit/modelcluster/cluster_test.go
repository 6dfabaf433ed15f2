package modelcluster_test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/testkit/modelcluster"
)

// open lets every request pass.
type open struct{}

func (open) Enter(modelcluster.Request) error              { return nil }
func (open) Leave(_ modelcluster.Request, err error) error { return err }

func newCluster() (*modelcluster.Cluster, *modelcluster.Client) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := modelcluster.New(func() time.Time { return now })
	c.Create("admin", thing("v1", "Namespace", "", "apps", nil))
	return c, c.NewClient("controller", runtime.NewScheme(), open{})
}

func thing(apiVersion, kind, namespace, name string, rest map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	for key, value := range rest {
		u.Object[key] = value
	}
	return u
}

func config(data map[string]any) *unstructured.Unstructured {
	return thing("v1", "ConfigMap", "apps", "settings", map[string]any{"data": data})
}

var settings = object.ID{Kind: "ConfigMap", Namespace: "apps", Name: "settings"}

func apply(t *testing.T, c *modelcluster.Client, obj *unstructured.Unstructured, opts ...client.PatchOption) *unstructured.Unstructured {
	t.Helper()
	opts = append(opts, client.ForceOwnership, client.FieldOwner("controller"))
	if err := c.Patch(t.Context(), obj, client.Apply, opts...); err != nil { //nolint:staticcheck // as package ssa does
		t.Fatal(err)
	}
	return obj
}

func TestApplyOwnsWhatItApplies(t *testing.T) {
	cluster, c := newCluster()
	apply(t, c, config(map[string]any{"a": "1", "b": "1"}))
	cluster.Edit("someone", settings, func(u *unstructured.Unstructured) {
		u.Object["data"] = map[string]any{"a": "1", "b": "by hand", "c": "mine"}
	})
	apply(t, c, config(map[string]any{"b": "2"}))
	data, _, _ := unstructured.NestedStringMap(cluster.Get(settings).Object, "data")
	if len(data) != 2 || data["b"] != "2" || data["c"] != "mine" {
		t.Errorf("%v: a field that is no longer applied goes, one of somebody else stays, one that is applied is set", data)
	}
}

func TestApplyOfTheSameWritesNothing(t *testing.T) {
	cluster, c := newCluster()
	apply(t, c, config(map[string]any{"a": "1"}))
	version := cluster.Version()
	apply(t, c, config(map[string]any{"a": "1"}))
	apply(t, c, config(map[string]any{"a": "2"}), client.DryRunAll)
	if cluster.Version() != version {
		t.Error("the same again, or a dry-run, wrote something")
	}
	if got := apply(t, c, thing("v1", "ConfigMap", "apps", "new", nil), client.DryRunAll); got.GetResourceVersion() != "" {
		t.Error("a dry-run of a creation has a resourceVersion")
	}
}

func TestPreconditions(t *testing.T) {
	cluster, c := newCluster()
	obj := apply(t, c, config(map[string]any{"a": "1"}))
	uid, version, wrong := obj.GetUID(), obj.GetResourceVersion(), types.UID("another")
	for name, pre := range map[string]client.Preconditions{"UID": {UID: &wrong}, "resourceVersion": {UID: &uid, ResourceVersion: new(string)}} {
		if err := c.Delete(t.Context(), obj, pre); !apierrors.IsConflict(err) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := c.Delete(t.Context(), obj, client.Preconditions{UID: &uid, ResourceVersion: &version}); err != nil || cluster.Get(settings) != nil {
		t.Errorf("the very object: %v", err)
	}
}

func TestFinalizersHoldADeletedObject(t *testing.T) {
	cluster, c := newCluster()
	obj := apply(t, c, config(nil))
	cluster.Edit("someone", settings, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/hold"}) })
	if err := c.Delete(t.Context(), obj); err != nil || cluster.Get(settings).GetDeletionTimestamp() == nil {
		t.Fatalf("deleted: %v", err)
	}
	cluster.Edit("someone", settings, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	if cluster.Get(settings) != nil {
		t.Error("it is still there")
	}
}

func TestPagesShowOneState(t *testing.T) {
	cluster, c := newCluster()
	cluster.PageSize = 1
	for _, name := range []string{"a", "b"} {
		cluster.Create("someone", thing("v1", "ConfigMap", "apps", name, nil))
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(thing("v1", "ConfigMapList", "", "", nil).GroupVersionKind())
	if err := c.List(t.Context(), list); err != nil || list.GetContinue() == "" {
		t.Fatalf("first page: %v", err)
	}
	cluster.Delete("someone", object.ID{Kind: "ConfigMap", Namespace: "apps", Name: "b"})
	if err := c.List(t.Context(), list, &client.ListOptions{Continue: list.GetContinue()}); err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" {
		t.Errorf("second page: %v, %v", list.Items, err)
	}
}

func TestKindsComeAndGoWithTheirDefinition(t *testing.T) {
	cluster, c := newCluster()
	widget := thing("example.com/v1", "Widget", "apps", "w", nil)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(widget), widget); !meta.IsNoMatchError(err) {
		t.Fatalf("before: %v", err)
	}
	cluster.Create("someone", thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com", map[string]any{"spec": map[string]any{
		"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Widget", "plural": "widgets"}}}))
	work(cluster)
	apply(t, c, widget)
	cluster.Delete("someone", object.ID{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "widgets.example.com"})
	work(cluster)
	err := c.Get(t.Context(), client.ObjectKeyFromObject(widget), widget)
	if status := (&apierrors.StatusError{}); !apierrors.IsNotFound(err) || !asStatus(err, &status) || len(status.ErrStatus.Details.Causes) == 0 {
		t.Errorf("after: %v, want a 404 that speaks of no object", err)
	}
}

func asStatus(err error, into **apierrors.StatusError) bool {
	status, ok := err.(*apierrors.StatusError) //nolint:errorlint // the model returns it as it is
	if ok {
		*into = status
	}
	return ok
}

func work(c *modelcluster.Cluster) {
	for c.Work(0) != "" {
	}
}

func deployment(image, config string) *unstructured.Unstructured {
	return thing("apps/v1", "Deployment", "apps", "web", map[string]any{"spec": map[string]any{"replicas": int64(2),
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": image,
			"envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": config}}}}}}}}})
}

// The story that all of this is for: a broken image stops the rollout, the old pods go on, and one that starts again
// without its configuration does not come up.
func TestABrokenRolloutKeepsTheOldPods(t *testing.T) {
	cluster, c := newCluster()
	for _, name := range []string{"one", "two"} {
		cluster.Create("someone", thing("v1", "ConfigMap", "apps", name, nil))
	}
	apply(t, c, deployment("web:1", "one"))
	work(cluster)
	if got := ready(cluster); got != 2 {
		t.Fatalf("%d pods are ready", got)
	}
	apply(t, c, deployment("web:broken", "two"))
	work(cluster)
	if got := ready(cluster); got != 2 {
		t.Fatalf("in the broken rollout %d pods are ready", got)
	}
	cluster.Delete("someone", object.ID{Kind: "ConfigMap", Namespace: "apps", Name: "one"})
	var pods []object.ID
	cluster.Each(object.ID{Kind: "Pod"}.GroupKind(), func(u *unstructured.Unstructured) { pods = append(pods, object.IDOf(u)) })
	for _, pod := range pods {
		cluster.Delete("node-drain", pod)
	}
	work(cluster)
	if got := ready(cluster); got != 0 {
		t.Errorf("%d pods start without their configuration", got)
	}
}

func ready(c *modelcluster.Cluster) int {
	n := 0
	c.Each(object.ID{Kind: "Pod"}.GroupKind(), func(u *unstructured.Unstructured) {
		if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase == "Running" {
			n++
		}
	})
	return n
}

func set(kind string, spec map[string]any) *unstructured.Unstructured {
	spec["template"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "db"}}, "spec": map[string]any{
		"containers": []any{map[string]any{"name": "main", "image": spec["image"],
			"envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": spec["config"]}}}}}}}
	delete(spec, "image")
	delete(spec, "config")
	return thing("apps/v1", kind, "apps", "db", map[string]any{"spec": spec})
}

func configs(cluster *modelcluster.Cluster, names ...string) {
	for _, name := range names {
		cluster.Create("someone", thing("v1", "ConfigMap", "apps", name, nil))
	}
}

func configsOfPods(c *modelcluster.Cluster) map[string]string {
	found := map[string]string{}
	c.Each(object.ID{Kind: "Pod"}.GroupKind(), func(u *unstructured.Unstructured) {
		spec, _, _ := unstructured.NestedMap(u.Object, "spec")
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		found[u.GetName()] = modelcluster.Needs(spec, "apps")[0].Name + " " + phase
	})
	return found
}

// Below the partition pods stay at the current revision, also when they are made again.
func TestAPartitionKeepsTheCurrentRevision(t *testing.T) {
	cluster, c := newCluster()
	configs(cluster, "one", "two")
	parted := func(image, config string) *unstructured.Unstructured {
		return set("StatefulSet", map[string]any{"image": image, "config": config, "replicas": int64(2),
			"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": int64(1)}}})
	}
	apply(t, c, parted("db:1", "one"))
	work(cluster)
	apply(t, c, parted("db:2", "two"))
	work(cluster)
	for _, name := range []string{"db-0", "db-1"} {
		cluster.Delete("node-drain", object.ID{Kind: "Pod", Namespace: "apps", Name: name})
	}
	work(cluster)
	if got := configsOfPods(cluster); got["db-0"] != "one Running" || got["db-1"] != "two Running" {
		t.Errorf("%v", got)
	}
}

// In a broken update of a StatefulSet the last pod is lost and the others go on with the current revision.
func TestABrokenUpdateOfAStatefulSet(t *testing.T) {
	cluster, c := newCluster()
	configs(cluster, "one", "two")
	apply(t, c, set("StatefulSet", map[string]any{"image": "db:1", "config": "one", "replicas": int64(3)}))
	work(cluster)
	apply(t, c, set("StatefulSet", map[string]any{"image": "db:broken", "config": "two", "replicas": int64(3)}))
	work(cluster)
	cluster.Delete("node-drain", object.ID{Kind: "Pod", Namespace: "apps", Name: "db-0"})
	work(cluster)
	if got := configsOfPods(cluster); got["db-0"] != "one Running" || got["db-2"] != "two Pending" {
		t.Errorf("%v", got)
	}
}

func TestADaemonSetUpdatesOneNodeAtATime(t *testing.T) {
	cluster, c := newCluster()
	configs(cluster, "one", "two")
	apply(t, c, set("DaemonSet", map[string]any{"image": "db:1", "config": "one"}))
	work(cluster)
	apply(t, c, set("DaemonSet", map[string]any{"image": "db:broken", "config": "two"}))
	work(cluster)
	if got := configsOfPods(cluster); got["db-node-a"] != "two Pending" || got["db-node-b"] != "one Running" {
		t.Errorf("%v", got)
	}
}

func TestJobs(t *testing.T) {
	cluster, c := newCluster()
	configs(cluster, "one")
	template := set("Job", map[string]any{"image": "run:fails", "config": "one"}).Object["spec"]
	apply(t, c, thing("batch/v1", "Job", "apps", "bad", map[string]any{"spec": template}))
	suspended := thing("batch/v1", "Job", "apps", "later", map[string]any{"spec": template}).DeepCopy()
	suspended.Object["spec"].(map[string]any)["suspend"] = true //nolint:forcetypeassert // as built above
	apply(t, c, suspended)
	timer := thing("batch/v1", "CronJob", "apps", "timer", map[string]any{"spec": map[string]any{"jobTemplate": map[string]any{"spec": template}}})
	apply(t, c, timer)
	for range 3 {
		if !cluster.Fire(object.IDOf(timer)) || cluster.Fire(object.IDOf(timer)) {
			t.Fatal("its time has come, and one runs at a time")
		}
		work(cluster)
	}
	states := map[string]int{}
	cluster.Each(object.ID{Group: "batch", Kind: "Job"}.GroupKind(), func(u *unstructured.Unstructured) {
		status, _, _ := unstructured.NestedMap(u.Object, "status")
		if status["failed"] != nil {
			states[u.GetName()[:3]]++
		}
	})
	if states["bad"] != 1 || states["tim"] != 1 || states["lat"] != 0 {
		t.Errorf("%v", states)
	}
}

func TestACloneIsAWorldOfItsOwn(t *testing.T) {
	cluster, c := newCluster()
	configs(cluster, "one")
	apply(t, c, deployment("web:1", "one"))
	clone := cluster.Clone()
	work(clone)
	if ready(clone) != 2 || ready(cluster) != 0 {
		t.Error("what happens in one happens in the other")
	}
}

func TestAFullClusterMakesNoPods(t *testing.T) {
	cluster, c := newCluster()
	configs(cluster, "one")
	cluster.Full = true
	apply(t, c, deployment("web:1", "one"))
	work(cluster)
	if ready(cluster) != 0 {
		t.Error("pods in a full cluster")
	}
	cluster.Full = false
	cluster.Create("someone", thing("v1", "ConfigMap", "apps", "other", nil)) // whatever happens next wakes the controllers
	work(cluster)
	if ready(cluster) != 2 {
		t.Error("no pods after there was room again")
	}
}
