package integration

import (
	"context"
	"fmt"
	"testing"

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
