// Package integration tests holdfast against the embedded Kubernetes: a real API server, controllers, scheduler and
// kubelet over simulated containers.
//
// One cluster serves all tests of the package; TestMain starts it and installs the CRDs. A test
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		ns := newNamespace(t)                  // deleted at the end, with what is in it
//		runHoldfast(t, ns)                     // the controllers, in this process, for that namespace only
//		create(t, &v1.Kustomization{...})
//		eventually(t, within, "the Kustomization is Ready", func(ctx context.Context) error {
//			var got v1.Kustomization
//			if err := kube.Get(ctx, client.ObjectKey{Namespace: ns, Name: "app"}, &got); err != nil {
//				return err
//			}
//			return conditionIs(got.Status.Conditions, "Ready", metav1.ConditionTrue)
//		})
//	}
//
// needs no other set-up: kube is a typed client without cache, env.Config the connection, env.Kubeconfig a path for
// programs. Tests run in parallel, each with its own namespace and its own controllers, and leave nothing behind.
// A test that needs cluster-scoped names makes them unique with the namespace's name.
//
// The cluster is the program bin/devcluster; without it the package fails and says how to build it. For a fast loop, keep
// one running and name its kubeconfig in HOLDFAST_TEST_KUBECONFIG.
package integration

import (
	"context"
	"fmt"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fluxcd/pkg/runtime/logger"

	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/install"
	"github.com/holdfast-gitops/holdfast/internal/testkit/cluster"
)

// What TestMain sets up, for all tests.
var (
	// env is the cluster: env.Config connects to it, env.Kubeconfig is a file for programs.
	env *cluster.Cluster
	// kube is an administrator's client for all types of app.NewScheme and for unstructured objects. It has no cache.
	kube client.Client
)

// logLevelVariable makes the controllers of the tests log: trace, debug, info or error.
const logLevelVariable = "HOLDFAST_TEST_LOG"

func TestMain(m *testing.M) {
	if root := os.Getenv(buildRoot); root != "" {
		if err := runFluxBuild(root, os.Getenv(buildDir)); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n", os.Getenv(buildDir), err)
			os.Exit(1)
		}
		return
	}
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "integration tests: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// runTests starts the cluster, runs the tests and stops it.
func runTests(m *testing.M) (code int, err error) {
	setLog(os.Getenv(logLevelVariable))
	ctx := context.Background()
	env, err = cluster.Start(ctx, clusterOptions())
	if err != nil {
		return 0, err
	}
	defer func() {
		if stopped := env.Stop(); stopped != nil && err == nil {
			err = stopped
		}
	}()
	scheme, err := app.NewScheme()
	if err != nil {
		return 0, err
	}
	if kube, err = client.New(env.Config, client.Options{Scheme: scheme}); err != nil {
		return 0, fmt.Errorf("connect to the cluster: %w", err)
	}
	crds, err := install.Objects(install.Options{CRDsOnly: true})
	if err != nil {
		return 0, err
	}
	if err := install.Apply(ctx, env.Config, crds, install.ApplyOptions{}); err != nil {
		return 0, fmt.Errorf("install the CRDs: %w", err)
	}
	return m.Run(), nil
}

// setLog sends the logs of all controllers to standard error, at a level; only errors by default.
func setLog(level string) {
	if level == "" {
		level = "error"
	}
	logger.SetLogger(logger.NewLogger(logger.Options{LogEncoding: "console", LogLevel: level}))
}
