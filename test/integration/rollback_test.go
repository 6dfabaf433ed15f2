package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/revision"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rollsBack sets onFailure: Rollback and a short timeout.
func rollsBack(timeout time.Duration) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.Rollout = &v1.RolloutPolicy{OnFailure: v1.OnFailureRollback}
		ks.Spec.Timeout = &metav1.Duration{Duration: timeout}
	}
}

// TestRollback: a revision fails, and the last healthy one comes back by itself, with its config. The failed one is skipped
// until it renders something else; a new revision goes out as ever.
func TestRollback(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", rollsBack(30*time.Second), func(ks *v1.Kustomization) { ks.Spec.Wait = false })
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	uid := s.uid(&first)
	s.awaitCondition("web", v1.RollbackReadyCondition, metav1.ConditionTrue, "Stored")

	r2 := s.push(webApp("2", missingImage))
	ks := s.awaitMessage("web", "Ready", metav1.ConditionFalse, v1.ReasonRolledBack, r2, "failed after ", "Deployment/"+s.namespace+"/web",
		"pod web-", "rolled back to "+r1)
	if err := conditionIs(ks.Status.Conditions, "Stalled", metav1.ConditionTrue); err != nil {
		t.Error(err)
	}
	if ks.Status.LastAppliedRevision != r1 || ks.Status.LastAttemptedRevision != r2 {
		t.Errorf("applied %s, attempted %s", ks.Status.LastAppliedRevision, ks.Status.LastAttemptedRevision)
	}
	s.awaitOldPods(2, first.Name)
	s.sameUID(&first, uid)
	eventually(t, within, "the config of the failed revision goes", func(ctx context.Context) error { return s.onlyConfigMapIs(ctx, "1") })

	// Neither a commit that renders the same nor a request tries it again.
	files := webApp("2", missingImage)
	files["README.md"] = "more"
	r3 := s.push(files)
	s.request("web")
	s.await("web", "skipping "+r3, func(ks *v1.Kustomization) error {
		if skipped := ks.Status.Rollout.Skipped; skipped == nil || skipped.Revision != r3 {
			return fmt.Errorf("skipped is %+v", skipped)
		}
		return conditionIs(ks.Status.Conditions, "Stalled", metav1.ConditionTrue)
	})
	if err := s.onlyConfigMapIs(t.Context(), "1"); err != nil {
		t.Error(err)
	}

	r4 := s.push(webApp("4", goodImage))
	s.awaitReady("web", r4)
	eventually(t, within, "only the config of the new revision is left", func(ctx context.Context) error { return s.onlyConfigMapIs(ctx, "4") })
	s.await("web", "with nothing skipped and two revisions stored", func(ks *v1.Kustomization) error {
		if r := ks.Status.Rollout; r.Skipped != nil || len(r.Stored) != 2 {
			return fmt.Errorf("skipped %+v, stored %+v", r.Skipped, r.Stored)
		}
		return nil
	})
}

// TestPinByHand: a person goes back to a stored revision and stays there until something else is pushed, or it is released.
func TestPinByHand(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Rollout = &v1.RolloutPolicy{KeepRevisions: new(int32(2))} })
	s.awaitReady("web", r1)
	r2 := s.push(webApp("2", goodImage))
	stored := s.awaitStored("web", r2, 2)

	s.ask("web", v1.AnnotationRollback, v1.RollbackRequest{To: stored[1].Digest, Until: "next", By: "alice", Reason: "INC-1"})
	ks := s.awaitReady("web", r1)
	if c := meta.FindStatusCondition(ks.Status.Conditions, v1.PinnedCondition); c == nil || !strings.Contains(c.Message, "alice") {
		t.Errorf("the condition Pinned is %+v", c)
	}
	eventually(t, within, "only the config of the pinned revision is left", func(ctx context.Context) error { return s.onlyConfigMapIs(ctx, "1") })

	s.change("web", func(ks *v1.Kustomization) { ks.Annotations[v1.AnnotationRelease] = "now" })
	s.awaitReady("web", r2)

	s.ask("web", v1.AnnotationRollback, v1.RollbackRequest{To: stored[1].Digest, Until: "next"})
	s.awaitReady("web", r1)
	r3 := s.push(webApp("3", goodImage))
	s.awaitReady("web", r3)
	if pin := s.mustGet("web").Status.Rollout.Pin; pin != nil {
		t.Errorf("still pinned: %+v", pin)
	}
	secrets := &corev1.SecretList{}
	if err := kube.List(t.Context(), secrets, client.InNamespace(s.namespace), client.HasLabels{revision.OwnerLabel}); err != nil || len(secrets.Items) == 0 {
		t.Errorf("%d Secrets, %v", len(secrets.Items), err)
	}
}

// awaitStored waits until a revision is the newest of n stored ones.
func (s *scenario) awaitStored(name, newest string, n int) []v1.StoredRevision {
	s.t.Helper()
	ks := s.await(name, fmt.Sprintf("%d revisions are stored, the newest is %s", n, newest), func(ks *v1.Kustomization) error {
		if ks.Status.Rollout == nil || len(ks.Status.Rollout.Stored) != n || ks.Status.Rollout.Stored[0].Revision != newest {
			return fmt.Errorf("stored is %+v", ks.Status.Rollout)
		}
		return nil
	})
	return ks.Status.Rollout.Stored
}

// ask writes a command into an annotation.
func (s *scenario) ask(name, key string, request v1.RollbackRequest) {
	s.t.Helper()
	request.At = metav1.Now()
	text, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.change(name, annotate(key, string(text)))
}
