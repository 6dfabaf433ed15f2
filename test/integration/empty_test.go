package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC13EmptyDirectory: a commit that empties the path deletes nothing, and is not taken for a healthy release: what was
// healthy last stays on record. An explicit empty set then prunes all.
func TestC13EmptyDirectory(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("app")
	good := s.awaitReady("app", r1).Status.Rollout.LastHealthy

	r2 := s.push(map[string]string{"README.md": "nothing here"})
	message := s.awaitCondition("app", "Stalled", metav1.ConditionTrue, string(v1.RetainedAwaitingConfirmation))
	ks := s.mustGet("app")
	if ks.Status.LastAttemptedRevision != r2 || ks.Status.LastAppliedRevision != r1 {
		t.Errorf("attempted %s, applied %s", ks.Status.LastAttemptedRevision, ks.Status.LastAppliedRevision)
	}
	if got := ks.Status.Rollout.LastHealthy; got == nil || got.Digest != good.Digest || got.Revision != good.Revision {
		t.Errorf("last healthy is %v, want %v", got, good)
	}
	if all, err := s.configMaps(t.Context(), ""); err != nil || len(all) == 0 {
		t.Errorf("the ConfigMaps are gone (%v): %s", err, message)
	}

	r3 := s.push(map[string]string{"kustomization.yaml": "resources: []\n"})
	s.awaitReady("app", r3)
	eventually(t, within, "everything was pruned", func(ctx context.Context) error {
		return s.gone(ctx, "a", "b")
	})
}

// TestC13ExplicitlyEmpty: an empty set that was meant could not be reconciled, so that the last objects were never removed. All go, and one
// Warning counts them, however often it is looked at.
func TestC13ExplicitlyEmpty(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	r2 := s.push(map[string]string{"kustomization.yaml": "resources: []\n"})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm("a"))
	eventuallyGone(t, within, s.cm("b"))
	s.awaitEvent("app", "Warning", v1.ReasonEmptied, r2, "2 in the inventory")
	s.request("app")
	events, err := s.eventsOf(t.Context(), "app")
	if err != nil {
		t.Fatal(err)
	}
	warnings := 0
	for _, e := range events {
		if e.Type == corev1.EventTypeWarning {
			warnings += int(max(1, e.Count))
		}
	}
	if warnings != 1 {
		t.Errorf("there were %d warnings, want 1", warnings)
	}
}

// TestC13GuardCountsWhatIsOwned: an object that is not to be pruned defeated the guard against an empty directory. Neither it nor the
// others go.
func TestC13GuardCountsWhatIsOwned(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	kept := strings.Replace(configMap("kept", "1"), "{name: kept}", "{name: kept, annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}}", 1)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "kept.yaml": kept})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	s.push(map[string]string{"README.md": "nothing here"})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, string(v1.RetainedAwaitingConfirmation), "0 objects built", "2 in the inventory")
	s.request("app")
	s.stays(s.cm("a"), s.cm("kept"))
}

// gone returns an error while one of the ConfigMaps exists.
func (s *scenario) gone(ctx context.Context, names ...string) error {
	for _, name := range names {
		cm := &metav1.PartialObjectMetadata{}
		cm.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
		if err := kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, cm); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil {
			return fmt.Errorf("ConfigMap %s exists", name)
		}
	}
	return nil
}

// TestUnservedKindLeavesNoEntry: an object of a kind that nobody serves was never created, so nothing has to remember it: the fix is
// Ready, and the Kustomization can be deleted.
func TestUnservedKindLeavesNoEntry(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	s.push(map[string]string{"a.yaml": configMap("a", "1"), "foo.yaml": "apiVersion: foo.example/v1\nkind: Foo\nmetadata: {name: x}\n"})
	s.follow()
	ks := s.deploy("app")
	s.awaitCondition("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed")
	if n := len(inventoryIDs(s.mustGet("app"))); n != 0 {
		t.Errorf("%d objects are in the inventory, though none could be created", n)
	}
	r2 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	fixed := s.awaitReady("app", r2)
	if n := len(fixed.Status.Rollout.Retained); n != 0 {
		t.Errorf("%d objects are kept: %v", n, fixed.Status.Rollout.Retained)
	}
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
}

// TestC13RemovedWithItsDirectory: a parent drops a Kustomization, and the same commit drops its directory. The child needs no source to
// go: what it made goes with it.
func TestC13RemovedWithItsDirectory(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	child := fmt.Sprintf("apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: child}\n"+
		"spec: {interval: 10m, prune: true, path: ./child, targetNamespace: %s, sourceRef: {kind: GitRepository, name: app}}\n", s.namespace)
	r1 := s.push(map[string]string{"parent/child.yaml": child, "parent/c.yaml": configMap("c", "1"), "child/x.yaml": configMap("x", "1")})
	s.follow()
	s.deploy("parent", at("./parent"))
	s.awaitReady("parent", r1)
	ks := s.awaitReady("child", r1)
	r2 := s.push(map[string]string{"parent/c.yaml": configMap("c", "1")})
	s.awaitReady("parent", r2)
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("x"))
	s.stays(s.cm("c"))
}
