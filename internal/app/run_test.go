package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

func TestATakenPortNamesItsFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = net.Listen("tcp", taken.Addr().String())
	for flag, options := range map[string]Options{
		"--metrics-addr": {MetricsAddr: taken.Addr().String()},
		"--health-addr":  {HealthAddr: taken.Addr().String()},
	} {
		if got := portHint(fmt.Errorf("failed to create listener: %w", err), options); !strings.Contains(got, flag) {
			t.Errorf("%q does not name %s", got, flag)
		}
	}
	if got := portHint(errors.New("other"), Options{}); got != "" {
		t.Errorf("a hint about no port: %q", got)
	}
}

// managed are the settings of the manager for flags.
func managed(t *testing.T, args ...string) ctrl.Options {
	t.Helper()
	o, err := resolve(t, map[string]string{NamespaceVariable: "team-a"}, args...)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return managerOptions(scheme, o)
}

// P182, P184, P185, P220: one namespace where that is asked for, no cache of Secrets and ConfigMaps, and no end by a panic.
func TestManagerOptions(t *testing.T) {
	all, one := managed(t), managed(t, "--watch-all-namespaces=false")
	if len(all.Cache.DefaultNamespaces) != 0 {
		t.Errorf("limited to %v", all.Cache.DefaultNamespaces)
	}
	if _, ok := one.Cache.DefaultNamespaces["team-a"]; !ok || len(one.Cache.DefaultNamespaces) != 1 {
		t.Errorf("limited to %v", one.Cache.DefaultNamespaces)
	}
	var direct []string
	for _, object := range all.Client.Cache.DisableFor {
		direct = append(direct, fmt.Sprintf("%T", object))
	}
	if strings.Join(direct, " ") != "*v1.Secret *v1.ConfigMap" {
		t.Errorf("read without a cache are %v", direct)
	}
	if recovers := all.Controller.RecoverPanic; recovers == nil || !*recovers {
		t.Error("a panic ends the process")
	}
}

// P180, P181, P221: a shard has its own lease, named as Flux names it, and sees its own Kustomizations; sources are not filtered, since
// it may follow one of another shard.
func TestShard(t *testing.T) {
	const selector = "sharding.fluxcd.io/key=a"
	whole, shard := managed(t), managed(t, "--watch-label-selector="+selector)
	if whole.LeaderElectionID != "kustomize-controller-leader-election" {
		t.Errorf("the lease is %s", whole.LeaderElectionID)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(selector)))
	if want := "kustomize-controller-leader-election-" + sum[:8]; shard.LeaderElectionID != want {
		t.Errorf("the lease is %s, want %s", shard.LeaderElectionID, want)
	}
	selectorOf := func(o ctrl.Options, object client.Object) labels.Selector {
		for by, settings := range o.Cache.ByObject {
			if fmt.Sprintf("%T", by) == fmt.Sprintf("%T", object) {
				return settings.Label
			}
		}
		return nil
	}
	if s := selectorOf(whole, &v1.Kustomization{}); s != nil {
		t.Errorf("without a shard Kustomizations are limited to %v", s)
	}
	if s := selectorOf(shard, &v1.Kustomization{}); s == nil || s.String() != selector {
		t.Errorf("Kustomizations are limited to %v", s)
	}
	for object := range shard.Cache.ByObject {
		if strings.Contains(fmt.Sprintf("%T", object), "GitRepository") {
			t.Error("GitRepositories are filtered")
		}
	}
}

// P183, P206, P207: the client limits itself only where the API server does not share out its capacity.
func TestRateLimits(t *testing.T) {
	o, err := resolve(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		header    string
		wantQPS   float32
		wantBurst int
	}{
		"priority and fairness": {"X-Kubernetes-Pf-Flowschema-Uid", -1, -1},
		"without":               {"X-Other", 50, 300},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(tt.header, "1") }))
			defer server.Close()
			got := limit(t.Context(), &rest.Config{Host: server.URL}, o)
			if got.QPS != tt.wantQPS || got.Burst != tt.wantBurst {
				t.Errorf("%v requests a second and %d at once, want %v and %d", got.QPS, got.Burst, tt.wantQPS, tt.wantBurst)
			}
		})
	}
}
