package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// keptFor returns nil if status keeps an object for a reason and names a user.
func keptFor(ks *v1.Kustomization, id string, reason v1.RetentionReason, user string) error {
	for _, r := range ks.Status.Rollout.Retained {
		if r.ID == id && r.Reason == reason && slices.Contains(r.Users, user) {
			return nil
		}
	}
	return fmt.Errorf("it keeps %v", ks.Status.Rollout.Retained)
}

// TestC19: six edits of a config, each healthy. A pod of the third generation lives on over several intervals: exactly that
// generation is kept, status says how many are, passes that change nothing write nothing, and it goes with its last user, without a
// commit.
func TestC19(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	h := startProcess(t, s.namespace, env.Kubeconfig)
	s.follow()
	var first string
	for i := 1; i <= 6; i++ {
		r := s.push(webApp(strconv.Itoa(i), goodImage))
		if i == 1 {
			s.deploy("web", every(2*time.Second))
		}
		s.awaitReady("web", r)
		if i == 3 {
			first = s.generatedName("app", "3")
			create(t, s.lastingPod("old", first))
		}
	}
	eventually(t, within, "two generations are there", func(ctx context.Context) error {
		all, err := s.configMaps(ctx, "app-")
		if err == nil && (len(all) != 2 || all["3"].Name == "" || all["6"].Name == "") {
			err = fmt.Errorf("there are %v", keys(all))
		}
		return err
	})
	s.await("web", "keeping one generation", func(ks *v1.Kustomization) error {
		if n := ks.Status.Rollout.RetainedCount; n != 1 {
			return fmt.Errorf("%d are kept", n)
		}
		if ready := meta.FindStatusCondition(ks.Status.Conditions, "Ready"); !containsAll(ready.Message, []string{"kept from pruning: 1 InUse"}) {
			return fmt.Errorf("it says %s", ready.Message)
		}
		return keptFor(ks, s.cmID(first), v1.RetainedInUse, "Pod/"+s.namespace+"/old")
	})
	s.awaitPasses(h, 2)
	before, events := s.versions(), s.countEvents("web")
	s.awaitPasses(h, 3)
	for object, version := range s.versions() {
		if before[object] != version {
			t.Errorf("%s was written to: resourceVersion %s, was %s", object, version, before[object])
		}
	}
	if now := s.countEvents("web"); now != events {
		t.Errorf("%d events, %d before", now, events)
	}
	if err := kube.Delete(t.Context(), s.lastingPod("old", first)); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, s.cm(first))
	s.awaitDropped("web", s.cmID(first))
}

// lastingPod is a pod that takes its environment from a ConfigMap and belongs to nobody.
func (s *scenario) lastingPod(name, config string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Containers: []corev1.Container{{Name: "main", Image: goodImage,
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}}}}}}}}
}
