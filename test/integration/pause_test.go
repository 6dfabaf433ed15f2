package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// pause pauses a Kustomization as the command line does.
func (s *scenario) pause(name string, length time.Duration) {
	s.t.Helper()
	now := time.Now()
	pause := policy.Pause{Reason: "freeze", By: "jane", At: now, Until: now.Add(length)}
	eventually(s.t, within, name+" is paused", func(ctx context.Context) error {
		_, err := control.Pause(ctx, kube, s.namespace, name, pause)
		return err
	})
}

// isPaused tells whether the object has the annotation, so that a state can be told from one before it.
func isPaused(ks *v1.Kustomization) bool { return policy.PauseOf(ks, time.Now()) != nil }

// A paused Kustomization takes up nothing, spec.suspend is not written, and release ends it; another pause ends by itself.
func TestPause(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("app")
	s.deploy("other", func(ks *v1.Kustomization) { ks.Spec.NamePrefix = "x-" })
	s.awaitReady("app", r1)
	s.awaitReady("other", r1)
	s.pause("app", time.Hour)
	r2 := s.push(map[string]string{"a.yaml": configMap("a", "2")})
	s.awaitAttempt("other", r2) // so has the controller seen the push
	q := newInquirer(t, env.Config)
	says(t, s.status(q), "Paused", `"freeze" (jane), until `)
	says(t, s.why(q, "app"), "is paused", "holdfast release app")
	says(t, textOf(t, s.plan(q, inquiry.PlanQuestion{Name: "app"})), "1 changed, 1 to prune", "note: it is paused")
	if _, err := control.Reconcile(t.Context(), kube, s.namespace, "app", time.Now()); err == nil {
		t.Error("a paused Kustomization is asked to reconcile")
	}
	ks := s.mustGet("app")
	if ks.Spec.Suspend || ks.Status.LastAttemptedRevision != r1 || !isPaused(ks) {
		t.Errorf("suspend is %t, it tried %s", ks.Spec.Suspend, ks.Status.LastAttemptedRevision)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(s.cm("b")), s.cm("b")); err != nil {
		t.Errorf("b: %v", err)
	}
	if ended, err := control.EndPause(t.Context(), kube, s.namespace, "app", time.Now()); err != nil || !ended {
		t.Fatalf("end the pause: %t %v", ended, err)
	}
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm("b"))

	s.pause("app", 5*time.Second)
	s.awaitReady("app", s.push(map[string]string{"a.yaml": configMap("a", "3")}))
	if ks := s.mustGet("app"); isPaused(ks) {
		t.Error("it went on before the pause ended")
	}
}

// What is deleted while it is paused leaves its objects, and names them.
func TestPausedDeletionLeavesAll(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	ks := s.deploy("app")
	s.awaitReady("app", r1)
	s.pause("app", time.Hour)
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventually(t, within, "the Kustomization is gone", func(ctx context.Context) error {
		if _, err := s.get(ctx, "app"); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	left := s.cm("a")
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(left), left); err != nil || left.DeletionTimestamp != nil {
		t.Errorf("a is deleted at %v: %v", left.DeletionTimestamp, err)
	}
}
