package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestHandOver: a leader is stopped in the middle of an apply, as on a node that hangs; another one takes over, takes up
// the next revision and prunes. When the first one wakes up it writes nothing more, and ends.
func TestHandOver(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	elected := []string{"--enable-leader-election", "--leader-election-lease-duration=5s",
		"--leader-election-renew-deadline=4s", "--leader-election-retry-period=1s"}
	r1 := s.push(map[string]string{"keep.yaml": configMap("keep", "1")})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.Wait = false })
	first := startProcess(t, s.namespace, env.Kubeconfig, elected...)
	s.awaitReady("app", r1)

	s.push(map[string]string{"keep.yaml": configMap("keep", "1"), "many.yaml": manyConfigMaps(400)})
	eventually(t, within, "some of the objects were made", func(ctx context.Context) error {
		return s.countOfMany(ctx, func(n int) bool { return n >= 20 })
	})
	signalProcess(t, first, syscall.SIGSTOP)
	r3 := s.push(map[string]string{"keep.yaml": configMap("keep", "3")})
	startProcess(t, s.namespace, env.Kubeconfig, elected...)
	s.awaitReady("app", r3)
	eventually(t, within, "the new leader pruned what the old one had made", func(ctx context.Context) error {
		return s.countOfMany(ctx, func(n int) bool { return n == 0 })
	})

	signalProcess(t, first, syscall.SIGCONT)
	<-first.done
	// One request may have been on its way when the process was stopped. What it made was recorded, and is gone with the next look
	// or, where the entry was dropped, is the one object that no fence can stop.
	if err := s.countOfMany(t.Context(), func(n int) bool { return n <= 1 }); err != nil {
		t.Errorf("the old leader went on: %v", err)
	}
}

func signalProcess(t *testing.T, r *running, signal syscall.Signal) {
	t.Helper()
	if err := r.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// manyConfigMaps are the manifests of a number of ConfigMaps.
func manyConfigMaps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("---\n" + configMap(fmt.Sprintf("many-%03d", i), "1"))
	}
	return b.String()
}

// countOfMany returns an error unless the number of those ConfigMaps that exist is right.
func (s *scenario) countOfMany(ctx context.Context, right func(int) bool) error {
	list := &corev1.ConfigMapList{}
	if err := kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	n := 0
	for _, cm := range list.Items {
		if strings.HasPrefix(cm.Name, "many-") {
			n++
		}
	}
	if !right(n) {
		return fmt.Errorf("%d of the ConfigMaps exist", n)
	}
	return nil
}
