package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC02: the collector looked only one generation back, so what an older one had was never found again. Here r2 drops P
// and fails, r3 is healthy; P goes after r3, also when the controller is restarted between any two steps.
func TestC02(t *testing.T) {
	for name, restarts := range map[string]bool{"one process": false, "restarts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t)
			s.checkConformance()
			h := s.run()
			restart := func() {
				if restarts {
					h.stop(t)
					h = s.run()
				}
			}
			r1 := s.push(map[string]string{"web.yaml": deployment("web", goodImage, ""), "p.yaml": configMap("p", "1")})
			s.follow()
			s.deploy("web")
			s.awaitReady("web", r1)
			restart()

			s.push(map[string]string{"web.yaml": broken("web", "")})
			s.awaitCondition("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed")
			restart()
			s.awaitRetained("web", s.cmID("p"), v1.RetainedAwaitingHealth)
			s.stays(s.cm("p"))

			r3 := s.push(map[string]string{"web.yaml": deployment("web", goodImage, ""), "q.yaml": configMap("q", "1")})
			restart()
			s.awaitReady("web", r3)
			restart()
			eventuallyGone(t, within, s.cm("p"))
			ks := s.awaitDropped("web", s.cmID("p"))
			if err := inInventory(ks, s.cmID("q"), s.id("apps/Deployment", "web")); err != nil {
				t.Error(err)
			}
		})
	}
}
