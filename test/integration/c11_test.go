package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC11: revisions pushed quickly while one is waited for left Kustomizations in progress for ever. Here the newest is
// always reached, and what the overtaken ones held back is pruned in the end.
func TestC11(t *testing.T) {
	t.Parallel()
	const repetitions = 15
	s := newStory(t)
	// At zero replicas there is nothing to wait for, and with a pod that can't start there is no end to it.
	stuck := func(k string) map[string]string {
		files := webApp(k, missingImage)
		files["web.yaml"] = replaceOnce(files["web.yaml"], "replicas: 2", "replicas: 1")
		return files
	}
	fine := func(k string) map[string]string {
		files := webApp(k, goodImage)
		files["web.yaml"] = replaceOnce(files["web.yaml"], "replicas: 2", "replicas: 0")
		return files
	}
	revision := s.push(fine("0"))
	s.follow()
	s.deploy("web")
	s.awaitReady("web", revision)
	for i := range repetitions {
		k := func(n int) string { return fmt.Sprintf("%d-%d", i, n) }
		waiting := s.push(stuck(k(1)))
		s.awaitAttempt("web", waiting)
		s.push(fine(k(2)))
		s.push(stuck(k(3)))
		revision = s.push(fine(k(4)))
		s.awaitReady("web", revision)
	}
	last := fmt.Sprintf("%d-4", repetitions-1)
	s.await("web", "left with one ConfigMap and the Deployment", func(ks *v1.Kustomization) error {
		if err := s.onlyConfigMapIs(t.Context(), last); err != nil {
			return err
		}
		if n := len(inventoryIDs(ks)); n != 2 {
			return fmt.Errorf("the inventory has %d entries", n)
		}
		return nil
	})
}

// TestC11Touch: an event that brings nothing new, a touched source or a push that renders the same objects, interrupts no
// verification: it keeps its beginning and its deadline.
func TestC11Touch(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := webApp("1", missingImage)
	s.push(files)
	s.follow()
	s.deploy("web")
	before := s.await("web", "verifying", phaseIs(v1.PhaseVerifying)).Status.Rollout

	source := &sourcev1.GitRepository{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: sourceName}, source); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
	if err := kube.Patch(t.Context(), source, patch); err != nil {
		t.Fatal(err)
	}
	files["README.md"] = "No manifest."
	r2 := s.push(files)
	after := s.await("web", "verifying "+r2, func(ks *v1.Kustomization) error {
		if ks.Status.Rollout.Wanted.Revision != r2 {
			return fmt.Errorf("it wants %s", ks.Status.Rollout.Wanted.Revision)
		}
		return phaseIs(v1.PhaseVerifying)(ks)
	})
	if !after.Status.Rollout.Deadline.Equal(before.Deadline) || !after.Status.Rollout.Since.Equal(before.Since) {
		t.Errorf("the verification began at %v and ends at %v, was %v and %v",
			after.Status.Rollout.Since, after.Status.Rollout.Deadline, before.Since, before.Deadline)
	}
	if after.Status.LastAttemptedRevision != r2 {
		t.Errorf("the attempted revision is %s, want %s", after.Status.LastAttemptedRevision, r2)
	}
}

func phaseIs(phase v1.Phase) func(*v1.Kustomization) error {
	return func(ks *v1.Kustomization) error {
		if ks.Status.Rollout == nil {
			return errors.New("there is no rollout status")
		}
		if got := ks.Status.Rollout.Phase; got != phase {
			return fmt.Errorf("the phase is %s; %s", got, strings.Join(messages(ks), "; "))
		}
		return nil
	}
}

func messages(ks *v1.Kustomization) []string {
	var all []string
	for _, c := range ks.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return all
}
