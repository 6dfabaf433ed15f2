package integration

import (
	"context"
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC03: a bad release is undone by a revert while it is still waited for. The revert goes out at once, and the config
// that it brings back was never away.
func TestC03(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web")
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")

	r2 := s.push(webApp("2", missingImage))
	s.awaitAttempt("web", r2)
	s.awaitRetained("web", inventoryID(first), v1.RetainedAwaitingHealth)

	r3 := s.push(webApp("1", goodImage))
	s.awaitReady("web", r3)
	s.sameUID(&first, string(first.UID))
	eventually(t, within, "only the first ConfigMap is left", func(ctx context.Context) error {
		return s.onlyConfigMapIs(ctx, "1")
	})
	s.sameUID(&first, string(first.UID))
}
