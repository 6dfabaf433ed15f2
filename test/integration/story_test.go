package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// parallelTests is how many tests run side by side, whatever the number of cores: most of a test is waiting. The flag
// -parallel says otherwise.
const parallelTests = "10"

func init() {
	testing.Init()
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		panic(err)
	}
}

// newStory is a scenario with the controllers at work and every state of its Kustomizations checked for conformance.
func newStory(t *testing.T, changes ...func(*app.Options)) *scenario {
	t.Helper()
	s := newScenario(t)
	s.checkConformance()
	runHoldfast(t, s.namespace, changes...)
	return s
}

// run runs the controllers as runHoldfast does, and waits until they answer.
func (s *scenario) run(changes ...func(*app.Options)) *holdfast {
	s.t.Helper()
	address := freeAddress(s.t)
	h := runHoldfast(s.t, s.namespace, append(changes, func(o *app.Options) { o.HealthAddr = address })...)
	url := "http://" + address + "/readyz"
	eventually(s.t, within, url+" answers", func(ctx context.Context) error { return answers(ctx, url) })
	return h
}

// releaseAll deletes the Kustomizations and sources of a namespace without their finalizers, since the controllers that
// would remove these have ended, and the namespace could never go.
func releaseAll(t *testing.T, namespace string) {
	// The test's own context has ended by now.
	ctx := context.Background()
	for _, list := range []client.ObjectList{&v1.KustomizationList{}, &sourcev1.GitRepositoryList{}} {
		if err := kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
			t.Errorf("list what is left in %s: %v", namespace, err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object) //nolint:forcetypeassert // both lists hold objects
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := client.IgnoreNotFound(kube.Patch(ctx, object, patch)); err != nil {
				t.Errorf("release %s: %v", object.GetName(), err)
			}
			if err := client.IgnoreNotFound(kube.Delete(ctx, object)); err != nil {
				t.Errorf("delete %s: %v", object.GetName(), err)
			}
			return nil
		})
	}
}

// watchClient returns a client that can watch.
var watchClient = sync.OnceValues(func() (client.WithWatch, error) {
	scheme, err := app.NewScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(env.Config, client.Options{Scheme: scheme})
})

// checkConformance watches the scenario's Kustomizations until the test ends, and fails it for a state that kubectl wait,
// flux or a parent's health check would misread.
func (s *scenario) checkConformance() {
	s.t.Helper()
	s.watchKustomizations(func(ks *v1.Kustomization) {
		if err := conforms(ks); err != nil {
			s.t.Errorf("Kustomization %s, resourceVersion %s, is no conformant state: %v\n%v", ks.Name, ks.ResourceVersion, err, ks.Status.Conditions)
		}
	})
}

// watchKustomizations calls a function for every state of the scenario's Kustomizations, one at a time, until the test ends.
func (s *scenario) watchKustomizations(see func(*v1.Kustomization)) {
	s.t.Helper()
	watching, err := watchClient()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := watching.Watch(ctx, &v1.KustomizationList{}, client.InNamespace(s.namespace))
	if err != nil {
		cancel()
		s.t.Fatalf("watch Kustomizations: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if ks, ok := e.Object.(*v1.Kustomization); ok && e.Type != watch.Deleted {
				see(ks)
			}
		}
	}()
	s.t.Cleanup(func() {
		w.Stop()
		cancel()
		<-done
	})
}

// conforms checks one state of a Kustomization against the rules of kstatus and Flux's order of conditions.
func conforms(ks *v1.Kustomization) error {
	if len(ks.Status.Conditions) == 0 || ks.DeletionTimestamp != nil || ks.Spec.Suspend {
		return nil
	}
	is := func(kind string) bool { return meta.IsStatusConditionTrue(ks.Status.Conditions, kind) }
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ks)
	if err != nil {
		return err
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	switch {
	case err != nil:
		fault("kstatus: %w", err)
	case is("Reconciling") && is("Stalled"):
		fault("both Reconciling and Stalled")
	case is("Ready") && (is("Reconciling") || is("Stalled")):
		fault("Ready while Reconciling or Stalled")
	case is("Ready") && ks.Status.ObservedGeneration == ks.Generation && result.Status != status.CurrentStatus:
		fault("Ready, but kstatus is %s", result.Status)
	case is("Stalled") && ks.Status.ObservedGeneration == ks.Generation && result.Status != status.FailedStatus:
		fault("Stalled, but kstatus is %s", result.Status)
	case !is("Ready") && !is("Reconciling") && !is("Stalled"):
		fault("not Ready, and neither Reconciling nor Stalled")
	case !is("Ready") && result.Status == status.CurrentStatus:
		fault("not Ready, but kstatus is %s", result.Status)
	}
	var kinds []string
	for _, c := range ks.Status.Conditions {
		kinds = append(kinds, c.Type)
		if c.ObservedGeneration == 0 {
			fault("%s has no observedGeneration", c.Type)
		}
		if leak := leaked.FindString(c.Message); leak != "" {
			fault("%s shows %q", c.Type, leak)
		}
	}
	order := []string{"Stalled", "Reconciling", "Ready", "Healthy", "LargeInventory", "Pinned", "PruneHeld", "RivalSkipped", "RollbackReady", "SharedObjects"}
	if !slices.IsSortedFunc(kinds, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) }) {
		fault("the order of the conditions is %v", kinds)
	}
	return errors.Join(faults...)
}

// leaked is what no message may show: directories of the controller's machine, and credentials in URLs.
var leaked = regexp.MustCompile(`/tmp/|kustomization-[0-9]+|://[^/ ]+:[^/ ]+@|hunter2`)

// cm is a ConfigMap of the scenario's namespace, to read or delete it.
func (s *scenario) cm(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// id is the inventory id of an object of the scenario's namespace; kind is "ConfigMap" or "apps/Deployment".
func (s *scenario) id(kind, name string) string {
	group, k, found := strings.Cut(kind, "/")
	if !found {
		group, k = "", kind
	}
	return strings.Join([]string{s.namespace, name, group, k}, "_")
}

// cmID is the inventory id of a ConfigMap.
func (s *scenario) cmID(name string) string { return s.id("ConfigMap", name) }

// uid reads the UID of an object that exists.
func (s *scenario) uid(object client.Object) string {
	s.t.Helper()
	if err := kube.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		s.t.Fatalf("read %T %s: %v", object, object.GetName(), err)
	}
	if object.GetDeletionTimestamp() != nil {
		s.t.Fatalf("%T %s is being deleted", object, object.GetName())
	}
	return string(object.GetUID())
}

// sameUID fails the test if an object is gone, going, or another one.
func (s *scenario) sameUID(object client.Object, uid string) {
	s.t.Helper()
	if got := s.uid(object); got != uid {
		s.t.Errorf("%T %s was deleted and made again: its UID is %s, was %s", object, object.GetName(), got, uid)
	}
}

// change alters the spec or metadata of a Kustomization.
func (s *scenario) change(name string, alter func(*v1.Kustomization)) {
	s.t.Helper()
	ks := s.mustGet(name)
	patch := client.MergeFrom(ks.DeepCopy())
	alter(ks)
	if err := kube.Patch(s.t.Context(), ks, patch); err != nil {
		s.t.Fatalf("change Kustomization %s: %v", name, err)
	}
}

// request asks for a reconciliation as `flux reconcile` does, and waits until it was taken up.
func (s *scenario) request(name string) *v1.Kustomization {
	s.t.Helper()
	token := time.Now().Format(time.RFC3339Nano)
	s.change(name, func(ks *v1.Kustomization) {
		if ks.Annotations == nil {
			ks.Annotations = map[string]string{}
		}
		ks.Annotations[fluxmeta.ReconcileRequestAnnotation] = token
	})
	return s.await(name, "reconciled on request", func(ks *v1.Kustomization) error {
		if got := ks.Status.LastHandledReconcileAt; got != token {
			return fmt.Errorf("last handled is %q, want %q", got, token)
		}
		return nil
	})
}

// awaitRetained waits until an object is kept for a reason, and returns what status says about it.
func (s *scenario) awaitRetained(name, id string, reason v1.RetentionReason) v1.RetainedObject {
	s.t.Helper()
	var found v1.RetainedObject
	s.await(name, fmt.Sprintf("keeping %s because of %s", id, reason), func(ks *v1.Kustomization) error {
		if ks.Status.Rollout == nil {
			return errors.New("there is no rollout status")
		}
		for _, r := range ks.Status.Rollout.Retained {
			if r.ID == id && r.Reason == reason {
				found = r
				return inInventory(ks, id)
			}
		}
		return fmt.Errorf("it keeps %v", ks.Status.Rollout.Retained)
	})
	return found
}

// awaitDropped waits until an object has left the inventory, and with it the list of what is kept.
func (s *scenario) awaitDropped(name, id string) *v1.Kustomization {
	s.t.Helper()
	return s.await(name, "without "+id, func(ks *v1.Kustomization) error {
		if inInventory(ks, id) == nil {
			return fmt.Errorf("the inventory has it; retained are %v", ks.Status.Rollout.Retained)
		}
		if reason := retainedBecause(ks, id); reason != "" {
			return fmt.Errorf("it is retained because of %s", reason)
		}
		return nil
	})
}

func inInventory(ks *v1.Kustomization, ids ...string) error {
	have := inventoryIDs(ks)
	for _, id := range ids {
		if !have[id] {
			return fmt.Errorf("the inventory lacks %s", id)
		}
	}
	return nil
}

// awaitMessage waits until a condition has a status, a reason and a message with all the given parts.
func (s *scenario) awaitMessage(name, kind string, want metav1.ConditionStatus, reason string, parts ...string) *v1.Kustomization {
	s.t.Helper()
	return s.await(name, fmt.Sprintf("%s=%s %s with %q", kind, want, reason, parts), func(ks *v1.Kustomization) error {
		return messageIs(ks, kind, want, reason, parts...)
	})
}

func messageIs(ks *v1.Kustomization, kind string, want metav1.ConditionStatus, reason string, parts ...string) error {
	c := meta.FindStatusCondition(ks.Status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("there is no condition %s", kind)
	}
	if c.Status != want || c.Reason != reason {
		return fmt.Errorf("it is %s %s: %s", c.Status, c.Reason, c.Message)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			return fmt.Errorf("the message lacks %q: %s", part, c.Message)
		}
	}
	return nil
}

// eventsOf returns the events about a Kustomization.
func (s *scenario) eventsOf(ctx context.Context, name string) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	if err := kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind != v1.KustomizationKind || e.InvolvedObject.Name != name
	}), nil
}

// awaitEvent waits for an event whose message has all the given parts.
func (s *scenario) awaitEvent(name, kind, reason string, parts ...string) corev1.Event {
	s.t.Helper()
	var found corev1.Event
	eventually(s.t, within, fmt.Sprintf("%s event %s about %s with %q", kind, reason, name, parts), func(ctx context.Context) error {
		events, err := s.eventsOf(ctx, name)
		if err != nil {
			return err
		}
		var have []string
		for _, e := range events {
			have = append(have, e.Type+" "+e.Reason+": "+e.Message)
			if e.Type == kind && e.Reason == reason && containsAll(e.Message, parts) {
				found = e
				return nil
			}
		}
		return fmt.Errorf("there are only:\n%s", strings.Join(have, "\n"))
	})
	return found
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// stays fails the test if an object is gone or going.
func (s *scenario) stays(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		s.uid(o)
	}
}

// isGone returns nil if an object does not exist.
func isGone(ctx context.Context, object client.Object) error {
	err := kube.Get(ctx, client.ObjectKeyFromObject(object), object)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%T %s exists", object, object.GetName())
}

// broken is a Deployment that its controller gives up on within seconds.
func broken(name, more string) string {
	return strings.Replace(deployment(name, missingImage, more), "spec:\n", "spec:\n  progressDeadlineSeconds: 1\n", 1)
}

// unwaited makes a Kustomization not wait for health.
func unwaited(ks *v1.Kustomization) { ks.Spec.Wait = false }

// at sets the path.
func at(path string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) { ks.Spec.Path = path }
}

// every sets the interval.
func every(d time.Duration) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) { ks.Spec.Interval.Duration = d }
}

// generated is a kustomization file that generates ConfigMaps with one key k of a value, and has resources.
func generated(value string, names []string, resources ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "resources: [%s]\nconfigMapGenerator:\n", strings.Join(resources, ", "))
	for _, name := range names {
		fmt.Fprintf(&b, "- {name: %s, literals: [k=%s]}\n", name, value)
	}
	return b.String()
}

// generatedName waits for the generated ConfigMap with a value, and returns its full name.
func (s *scenario) generatedName(prefix, value string) string {
	s.t.Helper()
	var name string
	eventually(s.t, within, "ConfigMap "+prefix+" "+value, func(ctx context.Context) error {
		all, err := s.configMaps(ctx, prefix+"-")
		if err != nil {
			return err
		}
		cm, ok := all[value]
		if !ok {
			return fmt.Errorf("only %v", keys(all))
		}
		name = cm.Name
		return nil
	})
	return name
}

// deploymentOf is a Deployment of the scenario's namespace, to read or delete it.
func (s *scenario) deploymentOf(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}
