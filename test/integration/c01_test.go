package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC01: a config edit with a broken image. The config that the old pods run on stays until nothing uses it any more,
// through the wait, its timeout and after; the next revision goes out at once and then one ConfigMap is left.
func TestC01(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Timeout = &metav1.Duration{Duration: 30 * time.Second} })
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")

	r2 := s.push(webApp("2", missingImage))
	s.awaitAttempt("web", r2)
	s.deleteOnePod(first.Name)
	s.awaitOldPods(2, first.Name)

	s.awaitCondition("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed")
	held := s.mustGet("web")
	second := s.configMapOf("2")
	for _, cm := range []corev1.ConfigMap{first, second} {
		if !inventoryIDs(held)[inventoryID(cm)] {
			t.Errorf("the inventory lacks %s: %v", cm.Name, held.Status.Inventory.Entries)
		}
	}
	if got := retainedBecause(held, inventoryID(first)); got != v1.RetainedAwaitingHealth {
		t.Errorf("%s is retained because of %q, want %s", first.Name, got, v1.RetainedAwaitingHealth)
	}
	s.deleteOnePod(first.Name)
	s.awaitOldPods(2, first.Name)

	r3 := s.push(webApp("3", goodImage))
	s.awaitReady("web", r3)
	eventually(t, within, "only the third ConfigMap is left", func(ctx context.Context) error {
		return s.onlyConfigMapIs(ctx, "3")
	})
	s.await("web", "without anything retained", func(ks *v1.Kustomization) error {
		if n := len(ks.Status.Rollout.Retained); n > 0 {
			return fmt.Errorf("%d objects are retained: %v", n, ks.Status.Rollout.Retained)
		}
		return nil
	})
}

// onlyConfigMapIs fails unless the namespace has exactly one generated ConfigMap, with the given value.
func (s *scenario) onlyConfigMapIs(ctx context.Context, value string) error {
	all, err := s.configMaps(ctx, "app-")
	if err != nil {
		return err
	}
	if _, ok := all[value]; !ok || len(all) != 1 {
		return fmt.Errorf("the ConfigMaps are %v", keys(all))
	}
	return nil
}

// onlyConfigMap returns the one generated ConfigMap, which must have the given value.
func (s *scenario) onlyConfigMap(value string) corev1.ConfigMap {
	s.t.Helper()
	if err := s.onlyConfigMapIs(s.t.Context(), value); err != nil {
		s.t.Fatal(err)
	}
	return s.configMapOf(value)
}

// configMapOf returns the generated ConfigMap with a value.
func (s *scenario) configMapOf(value string) corev1.ConfigMap {
	s.t.Helper()
	all, err := s.configMaps(s.t.Context(), "app-")
	if err != nil {
		s.t.Fatal(err)
	}
	cm, ok := all[value]
	if !ok {
		s.t.Fatalf("there is no ConfigMap with value %s, only %v", value, keys(all))
	}
	return cm
}

func keys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

// inventoryID is the id of a ConfigMap in an inventory.
func inventoryID(cm corev1.ConfigMap) string { return cm.Namespace + "_" + cm.Name + "__ConfigMap" }

// usesConfig tells whether a pod takes its environment from a ConfigMap.
func usesConfig(pod corev1.Pod, configMap string) bool {
	for _, c := range pod.Spec.Containers {
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil && from.ConfigMapRef.Name == configMap {
				return true
			}
		}
	}
	return false
}

// deleteOnePod deletes a ready pod that uses a ConfigMap, as an eviction would.
func (s *scenario) deleteOnePod(configMap string) {
	s.t.Helper()
	pods, err := s.readyPods(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pod := range pods {
		if usesConfig(pod, configMap) {
			if err := kube.Delete(s.t.Context(), &pod); err != nil {
				s.t.Fatal(err)
			}
			eventuallyGone(s.t, within, &pod)
			return
		}
	}
	s.t.Fatalf("no ready pod uses %s", configMap)
}

// awaitOldPods waits until a number of pods that use a ConfigMap are ready.
func (s *scenario) awaitOldPods(n int, configMap string) {
	s.t.Helper()
	eventually(s.t, within, fmt.Sprintf("%d pods run on %s", n, configMap), func(ctx context.Context) error {
		pods, err := s.readyPods(ctx)
		if err != nil {
			return err
		}
		found := 0
		for _, pod := range pods {
			if usesConfig(pod, configMap) {
				found++
			}
		}
		if found != n {
			return fmt.Errorf("%d do", found)
		}
		return nil
	})
}
