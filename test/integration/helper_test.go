package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/testkit/address"
)

const (
	// pollInterval is the time between two looks of eventually.
	pollInterval = 50 * time.Millisecond
	// stopTimeout is how long the controllers may take to end.
	stopTimeout = 2 * time.Minute
)

// newNamespace makes a namespace for the test and deletes it afterwards.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := kube.Create(t.Context(), ns); err != nil {
		t.Fatalf("make a namespace for the test: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := client.IgnoreNotFound(kube.Delete(context.Background(), ns)); err != nil {
			t.Errorf("delete the namespace of the test: %v", err)
		}
	})
	return ns.Name
}

// create sends objects to the cluster.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s/%s: %v", object, object.GetNamespace(), object.GetName(), err)
		}
	}
}

// eventually calls check until it returns nil. When the time is over the test fails with its last error.
func eventually(t *testing.T, within time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := fmt.Errorf("never checked")
	for {
		if err := check(ctx); err == nil {
			return
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s: %v", within, what, last)
		case <-ticker.C:
		}
	}
}

// eventuallyGone waits until an object no longer exists.
func eventuallyGone(t *testing.T, within time.Duration, object client.Object) {
	t.Helper()
	what := fmt.Sprintf("%T %s/%s is gone", object, object.GetNamespace(), object.GetName())
	eventually(t, within, what, func(ctx context.Context) error {
		err := kube.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it exists, deletion time %v, finalizers %v", object.GetDeletionTimestamp(), object.GetFinalizers())
	})
}

// conditionIs returns nil if a condition has a status, else an error that shows it.
func conditionIs(conditions []metav1.Condition, kind string, status metav1.ConditionStatus) error {
	condition := meta.FindStatusCondition(conditions, kind)
	if condition == nil {
		return fmt.Errorf("there is no condition %s", kind)
	}
	if condition.Status != status {
		return fmt.Errorf("condition %s is %s, %s: %s", kind, condition.Status, condition.Reason, condition.Message)
	}
	return nil
}

// holdfast is a process of holdfast that runs inside the test's.
type holdfast struct {
	cancel context.CancelFunc
	done   chan error
}

// runHoldfast runs the controllers for one namespace until the test ends. The options are those of `holdfast run`
// with short delays, on free ports; each change may alter them.
func runHoldfast(t *testing.T, namespace string, changes ...func(*app.Options)) *holdfast {
	t.Helper()
	options := testOptions(t, namespace)
	for _, change := range changes {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &holdfast{cancel: cancel, done: make(chan error, 1)}
	go func() { h.done <- app.Run(ctx, env.Config, options) }()
	t.Cleanup(func() { h.stop(t) })
	return h
}

// stop ends the controllers as SIGTERM does, and waits for them. A test may call it to see what happens after a restart.
func (h *holdfast) stop(t *testing.T) {
	t.Helper()
	h.cancel()
	select {
	case err := <-h.done:
		h.done <- nil
		if err != nil {
			t.Errorf("holdfast ended with: %v", err)
		}
	case <-time.After(stopTimeout):
		t.Errorf("holdfast did not end within %s", stopTimeout)
	}
}

// testOptions are options that let many instances run side by side.
func testOptions(t *testing.T, namespace string) app.Options {
	t.Helper()
	options, err := app.DefaultOptions()
	if err != nil {
		t.Fatal(err)
	}
	options.Namespace = namespace
	options.WatchAllNamespaces = false
	options.MetricsAddr, options.HealthAddr = "0", "0"
	options.SkipNameValidation = true
	options.Kustomization.OwnNamespace = namespace
	options.Kustomization.RequeueDependency = time.Second
	options.Source.RequeueDependency = time.Second
	options.Source.StoragePath = t.TempDir()
	options.Source.StorageAddr, options.Source.StorageAdvAddr = "127.0.0.1:0", ""
	return options
}

// freeAddress returns a loopback address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := address.Free()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// uniqueName returns a name for something cluster-scoped.
func uniqueName(prefix string) string {
	return prefix + "-" + rand.String(6)
}

// asMap returns an object as the API server sees it.
func asMap(t *testing.T, object any) map[string]any {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(content, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// uninstall deletes what install put into the cluster, except for the CRDs, which other tests need.
func uninstall(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		// The test's own context has ended by now. What is in the namespace goes with it.
		if err := client.IgnoreNotFound(kube.Delete(context.Background(), object)); err != nil {
			t.Errorf("delete %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
