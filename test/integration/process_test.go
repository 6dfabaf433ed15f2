package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/app"
)

// Two instances run in one process, answer their probes and end when they are told to.
func TestProcessAnswersAndEnds(t *testing.T) {
	t.Parallel()
	for range 2 {
		health, metrics := freeAddress(t), freeAddress(t)
		h := runHoldfast(t, newNamespace(t), func(o *app.Options) { o.HealthAddr, o.MetricsAddr = health, metrics })
		for _, url := range []string{
			"http://" + health + "/healthz", "http://" + health + "/readyz",
			"http://" + metrics + "/metrics", "http://" + metrics + "/debug/pprof/cmdline",
		} {
			eventually(t, within, url+" answers", func(ctx context.Context) error { return answers(ctx, url) })
		}
		t.Cleanup(func() { h.stop(t) })
	}
}

// With leader election the lease has the name of Flux's, so that the two never work at the same time.
func TestLeaseIsThatOfFlux(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	runHoldfast(t, namespace, func(o *app.Options) { o.LeaderElection.Enable = true })
	lease := &coordinationv1.Lease{}
	eventually(t, within, "the lease is held", func(ctx context.Context) error {
		key := client.ObjectKey{Namespace: namespace, Name: "kustomize-controller-leader-election"}
		if err := kube.Get(ctx, key, lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("nobody holds it")
		}
		return nil
	})
}

func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}
