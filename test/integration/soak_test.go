package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// A revision that has to stay healthy for a while is Ready meanwhile, keeps what it replaced and says until when. A relapse
// starts the time over, and when it is over the rest goes by itself.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", annotate(v1.AnnotationSoak, "5s"))
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	s.awaitLastHealthy("web", r1)

	s.change("web", annotate(v1.AnnotationSoak, "1h"))
	r2 := s.push(webApp("2", goodImage))
	s.awaitReady("web", r2)
	kept := s.awaitRetained("web", inventoryID(first), v1.RetainedAwaitingHealth)
	since := s.mustGet("web").Status.Rollout.HealthySince
	end := since.Add(time.Hour).UTC().Format(time.RFC3339)
	if kept.Until != r2+" has stayed healthy until "+end {
		t.Errorf("it is kept until %q, want %s", kept.Until, end)
	}
	s.awaitMessage("web", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", "1 AwaitingHealth; counts as healthy if it stays so until "+end)
	s.awaitLastHealthy("web", r1)

	s.setImage("web", missingImage)
	ks := s.await("web", "verifying again", phaseIs(v1.PhaseVerifying))
	if ks.Status.Rollout.HealthySince != nil {
		t.Errorf("while verifying it is healthy since %s", ks.Status.Rollout.HealthySince)
	}
	s.setImage("web", goodImage)
	ks = s.await("web", "healthy for a new time", phaseIs(v1.PhaseHealthy))
	if now := ks.Status.Rollout.HealthySince; now == nil || now.Before(since) {
		t.Errorf("healthy since %v, before since %v", now, since)
	}
	s.stays(&first)

	s.change("web", annotate(v1.AnnotationSoak, "5s"))
	eventuallyGone(t, within, &first)
	s.awaitLastHealthy("web", r2)
	if since := s.mustGet("web").Status.Rollout.HealthySince; since != nil {
		t.Errorf("healthy since %s is still there", since)
	}
}

// awaitLastHealthy waits until a revision is the last healthy one.
func (s *scenario) awaitLastHealthy(name, revision string) {
	s.t.Helper()
	s.await(name, "healthy at last at "+revision, func(ks *v1.Kustomization) error {
		if ks.Status.Rollout == nil || ks.Status.Rollout.LastHealthy == nil {
			return errors.New("none is")
		}
		if got := ks.Status.Rollout.LastHealthy.Revision; got != revision {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// setImage changes the image of a Deployment behind the back of the controllers.
func (s *scenario) setImage(name, image string) {
	s.t.Helper()
	patch := client.RawPatch("application/json-patch+json",
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image))
	if err := kube.Patch(s.t.Context(), s.deploymentOf(name), patch); err != nil {
		s.t.Fatal(err)
	}
}
