package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
)

// configMapsTo are the manifests of the ConfigMaps c0 up to, and not, cN.
func configMapsTo(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		name := fmt.Sprint("c", i)
		files[name+".yaml"] = configMap(name, "1")
	}
	return files
}

// awaitPending waits until a number of objects wait for confirmation, and returns the digest of them.
func (s *scenario) awaitPending(name string, n int) string {
	s.t.Helper()
	ks := s.await(name, fmt.Sprintf("asking about %d objects", n), func(ks *v1.Kustomization) error {
		if ks.Status.Rollout == nil || ks.Status.Rollout.PendingPrune == nil {
			return fmt.Errorf("nothing is pending: %v", messages(ks))
		}
		if got := int(ks.Status.Rollout.PendingPrune.Count); got != n {
			return fmt.Errorf("%d are pending", got)
		}
		return nil
	})
	return ks.Status.Rollout.PendingPrune.Digest
}

// awaitNothingPending waits until nobody is asked about anything.
func (s *scenario) awaitNothingPending(name string) {
	s.t.Helper()
	s.await(name, "asking nothing", func(ks *v1.Kustomization) error {
		if p := ks.Status.Rollout.PendingPrune; p != nil {
			return fmt.Errorf("%s", p.Message)
		}
		if conditionIs(ks.Status.Conditions, v1.PruneHeldCondition, metav1.ConditionTrue) == nil {
			return fmt.Errorf("the condition %s is there", v1.PruneHeldCondition)
		}
		return nil
	})
}

// maxPrune: a larger prune waits while Ready stays True, and exactly what was shown goes once it is confirmed; an older
// confirmation does not release a set that grew.
func TestMaxPrune(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(configMapsTo(10))
	s.follow()
	s.deploy("app", annotate(v1.AnnotationMaxPrune, "20%"))
	s.awaitReady("app", r1)

	r2 := s.push(configMapsTo(8))
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm("c9")) // two of ten are not too many

	r3 := s.push(configMapsTo(4))
	s.awaitReady("app", r3)
	smaller := s.awaitPending("app", 4)
	s.awaitMessage("app", v1.PruneHeldCondition, metav1.ConditionTrue, "AwaitingConfirmation",
		"4 of 8 objects", "4 ConfigMap", "holdfast confirm app -n "+s.namespace+" --expect "+smaller)
	s.awaitRetained("app", s.cmID("c7"), v1.RetainedAwaitingConfirmation)
	s.awaitEvent("app", "Normal", "AwaitingConfirmation", "4 ConfigMap", smaller)

	r4 := s.push(configMapsTo(2))
	s.awaitReady("app", r4)
	larger := s.awaitPending("app", 6)
	s.change("app", annotate(v1.AnnotationConfirmPrune, smaller))
	s.request("app")
	s.stays(s.cm("c2"), s.cm("c3"), s.cm("c4"), s.cm("c7"))
	s.change("app", annotate(v1.AnnotationConfirmPrune, larger))
	for i := 2; i < 8; i++ {
		eventuallyGone(t, within, s.cm(fmt.Sprint("c", i)))
	}
	s.awaitNothingPending("app")
	s.stays(s.cm("c0"), s.cm("c1"))
	s.awaitMessage("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", r4)
}

// One confirmation lets go of what left while pruning was off, and of what a directory without manifests would delete.
func TestConfirmEmptyBuildAndPruneOff(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{"app/a.yaml": configMap("a", "1"), "app/b.yaml": configMap("b", "1")}
	r1 := s.push(files)
	s.follow()
	s.deploy("app", at("./app"), func(ks *v1.Kustomization) { ks.Spec.Prune = false })
	s.awaitReady("app", r1)
	delete(files, "app/a.yaml")
	r2 := s.push(files)
	s.awaitReady("app", r2)
	s.awaitRetained("app", s.cmID("a"), v1.RetainedPruneOff)

	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Prune = true })
	first := s.awaitPending("app", 1)
	s.awaitMessage("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", "1 AwaitingConfirmation")
	r3 := s.push(map[string]string{"app/README.md": "nothing"})
	s.awaitMessage("app", "Stalled", metav1.ConditionTrue, "AwaitingConfirmation", "0 objects built")
	both := s.awaitPending("app", 2)
	s.change("app", annotate(v1.AnnotationConfirmPrune, first))
	s.request("app")
	s.stays(s.cm("a"), s.cm("b"))
	s.change("app", annotate(v1.AnnotationConfirmPrune, both))
	eventuallyGone(t, within, s.cm("a"))
	eventuallyGone(t, within, s.cm("b"))
	s.awaitReady("app", r3)
	s.awaitNothingPending("app")
	s.await("app", "a release like any other", func(ks *v1.Kustomization) error {
		if r := ks.Status.Rollout; r.LastHealthy == nil || r.LastHealthy.Revision != r3 {
			return fmt.Errorf("last healthy is %v", r.LastHealthy)
		}
		return nil
	})
}

// An object marked Confirm waits for a person, and one marked Immediate makes way before its successor is applied: two
// Services can't have one node port.
func TestTimesOfSingleObjects(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	port := 31000 + int(time.Now().UnixNano()/1e6%1700)
	files := map[string]string{
		"old.yaml":  nodePort("old", port, "Immediate"),
		"data.yaml": replaceOnce(configMap("data", "1"), "{name: data}", "{name: data, annotations: {holdfast.dev/prune: Confirm}}"),
		"rest.yaml": configMap("rest", "1"),
	}
	r1 := s.push(files)
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)

	r2 := s.push(map[string]string{"new.yaml": nodePort("new", port, "WhenUnused"), "rest.yaml": configMap("rest", "1")})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "old"}})
	s.stays(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "new"}}, s.cm("data"))
	s.change("app", annotate(v1.AnnotationConfirmPrune, s.awaitPending("app", 1)))
	eventuallyGone(t, within, s.cm("data"))
}

// nodePort is a Service with a port of the nodes.
func nodePort(name string, port int, when string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s, annotations: {holdfast.dev/prune: %s}}
spec: {type: NodePort, selector: {app: none}, ports: [{port: 80, nodePort: %d}]}
`, name, when, port)
}

// A revision that timed out names what it keeps and the way out, which works on the live object.
func TestEscapeFromAHeldRevision(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Timeout = &metav1.Duration{Duration: 10 * time.Second} })
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	s.push(webApp("2", missingImage))
	s.awaitMessage("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed",
		"kept until a revision is healthy: ConfigMap/"+s.namespace+"/"+first.Name, "holdfast.dev/prune: Immediate")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"holdfast.dev/prune":"Immediate"}}}`))
	if err := kube.Patch(t.Context(), &first, patch); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, &first)
	s.awaitDropped("web", inventoryID(first))
}

// A policy that can't be understood stops everything, and says what may stand there.
func TestInvalidPolicyIsRefused(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(configMapsTo(1))
	s.follow()
	s.deploy("app", annotate(v1.AnnotationPruneOrder, "never"))
	ks := s.awaitMessage("app", "Stalled", metav1.ConditionTrue, v1.ReasonInvalidPolicy,
		`holdfast.dev/prune-order is "never"`, "want AfterHealthy or AfterApply")
	if ks.Status.Inventory != nil {
		t.Errorf("something was applied: %+v", ks.Status.Inventory)
	}
	s.change("app", annotate(v1.AnnotationPruneOrder, "AfterApply"))
	s.awaitReady("app", r1)
}

// The commands: confirm shows what waits and allows exactly that, kept lists it, and a wrong digest writes nothing.
func TestConfirmCommand(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(configMapsTo(4))
	s.follow()
	s.deploy("app", annotate(v1.AnnotationMaxPrune, "1"))
	s.awaitReady("app", r1)
	r2 := s.push(configMapsTo(1))
	s.awaitReady("app", r2)
	digest := s.awaitPending("app", 3)
	q := newInquirer(t, env.Config)
	says(t, s.status(q), "NeedsConfirmation", "3 of 4 objects")
	says(t, s.why(q, "app"), "needs confirmation", "--plan")

	kept, err := q.Kept(t.Context(), s.namespace, "", v1.RetainedAwaitingConfirmation)
	if err != nil || len(kept.Objects) != 3 {
		t.Fatalf("kept are %+v: %v", kept, err)
	}
	says(t, textOf(t, kept), s.namespace+"/app", "ConfigMap "+s.namespace+"/c3", "AwaitingConfirmation", "its deletion is confirmed")
	shown, err := q.Confirmation(t.Context(), s.namespace, "app")
	if err != nil {
		t.Fatal(err)
	}
	says(t, textOf(t, shown), "3 ConfigMap", "--expect "+digest)

	c, err := control.New(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Confirm(t.Context(), c, s.namespace, "app", "0123456789abcdef"); err == nil || !strings.Contains(err.Error(), digest) {
		t.Errorf("another digest: %v", err)
	}
	if s.mustGet("app").Annotations[v1.AnnotationConfirmPrune] != "" {
		t.Error("another digest was written")
	}
	if _, err := control.Confirm(t.Context(), c, s.namespace, "app", digest); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c1", "c2", "c3"} {
		eventuallyGone(t, within, s.cm(name))
	}
	managers := map[string]bool{}
	for _, m := range s.mustGet("app").ManagedFields {
		managers[m.Manager] = true
	}
	if !managers[v1.CLIManager] {
		t.Errorf("the field managers are %v, want %s among them", managers, v1.CLIManager)
	}
	s.awaitNothingPending("app")
	if _, err := control.Confirm(t.Context(), c, s.namespace, "app", digest); err == nil {
		t.Error("nothing waits, and yet it was confirmed")
	}
}

// A confirmation is good for one time: the same objects, back in the source and gone from it again, are asked about again.
func TestConfirmationIsForOneTime(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(configMapsTo(4))
	s.follow()
	s.deploy("app", annotate(v1.AnnotationMaxPrune, "1"))
	s.awaitReady("app", r1)
	s.awaitReady("app", s.push(configMapsTo(1)))
	first := s.awaitPending("app", 3)
	files := configMapsTo(4)
	files["kustomization.yaml"] = "resources: [c0.yaml, c1.yaml, c2.yaml, c3.yaml]\n"
	s.awaitReady("app", s.push(files))
	s.awaitNothingPending("app")
	s.change("app", annotate(v1.AnnotationConfirmPrune, first))
	s.awaitReady("app", s.push(configMapsTo(1)))
	if second := s.awaitPending("app", 3); second == first {
		t.Errorf("the digest is %s again", first)
	}
	s.request("app")
	s.stays(s.cm("c1"), s.cm("c2"), s.cm("c3"))
}
