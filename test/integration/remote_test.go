package integration

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestRemoteBases: a host that does not answer fails its own Kustomization and stops no other, and what another host offers is
// looked at again at the interval.
func TestRemoteBases(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connections, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var version atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, configMap("remote", fmt.Sprint(version.Load())))
	}))
	defer server.Close()
	s := newScenario(t)
	startProcess(t, s.namespace, env.Kubeconfig)
	revision := s.push(map[string]string{
		"good/c.yaml":                 configMap("good", "1"),
		"bad/kustomization.yaml":      "resources: ['http://" + silent.Addr().String() + "/x.yaml']\n",
		"changing/kustomization.yaml": "resources: ['" + server.URL + "/x.yaml']\n",
	})
	s.follow()
	s.deploy("changing", unwaited, at("./changing"), func(ks *v1.Kustomization) {
		ks.Spec.Interval = metav1.Duration{Duration: 3 * time.Second}
	})
	s.awaitReady("changing", revision)
	version.Store(1)
	s.await("changing", "has the new version", func(*v1.Kustomization) error {
		cm := s.cm("remote")
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
			return err
		}
		if cm.Data["k"] != "1" {
			return fmt.Errorf("it has %v", cm.Data)
		}
		return nil
	})
	s.deploy("bad", unwaited, at("./bad"))
	s.await("bad", "is worked on", func(ks *v1.Kustomization) error {
		if len(ks.Finalizers) == 0 {
			return errors.New("it has no finalizer")
		}
		return nil
	})
	s.deploy("good", unwaited, at("./good"))
	s.awaitReady("good", revision)
}
