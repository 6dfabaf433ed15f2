package integration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

func (s *scenario) waitsFor(name string) {
	s.t.Helper()
	s.push(webApp("1", crashImage))
	s.follow()
	s.deploy(name, func(ks *v1.Kustomization) { ks.Spec.Timeout.Duration = 30 * time.Minute })
	s.await(name, "verifying", phaseIs(v1.PhaseVerifying))
}

// TestC26DeleteWhileWaiting: a Kustomization whose workload is unhealthy could not be deleted for the whole wait. The
// timeout is half an hour here; within the test's patience means at once.
func TestC26DeleteWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.waitsFor("web")
	ks := s.mustGet("web")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.deploymentOf("web"))
	// Pods that are being collected may hold the ConfigMap for a moment; then it is nobody's.
	list := &corev1.ConfigMapList{}
	if err := kube.List(t.Context(), list, client.InNamespace(s.namespace), client.HasLabels{v1.OwnerNameLabel}); err != nil {
		t.Fatal(err)
	}
	for _, cm := range list.Items {
		if cm.DeletionTimestamp == nil {
			t.Errorf("ConfigMap %s is an orphan", cm.Name)
		}
	}
}

// TestC26DeleteSuspended: a suspended one kept hanging about. It goes at once, its objects stay, and an event lists them.
func TestC26DeleteSuspended(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	ks := s.mustGet("app")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	s.awaitEvent("app", "Normal", "ReconciliationSucceeded", "1 objects are left", "ConfigMap/"+s.namespace+"/a", "suspended")
	s.stays(s.cm("a"))
}

// TestC26SuspendWhileWaiting: suspending ends the wait and prunes nothing; a healthy end of it must not prune either.
func TestC26SuspendWhileWaiting(t *testing.T) {
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
	s.change("web", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	ks := s.request("web")
	before := ks.ResourceVersion
	// Someone mends the rollout by hand; no pass looks at it.
	d := s.deploymentOf("web")
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[0].Image = goodImage
	if err := kube.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s.awaitOldPods(2, s.configMapOf("2").Name)
	s.push(webApp("3", goodImage))
	s.sameUID(&first, string(first.UID))
	if got := s.mustGet("web"); got.ResourceVersion != before || got.Status.LastAttemptedRevision != r2 {
		t.Errorf("a suspended Kustomization was reconciled: %v", messages(got))
	}
	s.change("web", func(ks *v1.Kustomization) { ks.Spec.Suspend = false })
	s.await("web", "Ready", func(ks *v1.Kustomization) error {
		if err := s.onlyConfigMapIs(t.Context(), "3"); err != nil {
			return err
		}
		return conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue)
	})
}
