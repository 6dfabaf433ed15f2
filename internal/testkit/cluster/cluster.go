// Package cluster starts the embedded Kubernetes for tests.
//
// Start runs the program devcluster as a child and waits until its API server, controllers, scheduler and node are up.
// It is looked for in the environment variable HOLDFAST_DEVCLUSTER, then as bin/devcluster in the directories above the
// working directory. Where HOLDFAST_TEST_KUBECONFIG names the kubeconfig of a running cluster, that one is used and left
// running, which makes repeated runs of a test fast.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// BinaryVariable names the devcluster program.
	BinaryVariable = "HOLDFAST_DEVCLUSTER"
	// KubeconfigVariable names the kubeconfig of a cluster that is up already.
	KubeconfigVariable = "HOLDFAST_TEST_KUBECONFIG"
)

// ErrNoBinary says that the devcluster program was not found, and how to get it.
var ErrNoBinary = errors.New("the embedded Kubernetes is not built: run `make bin/devcluster` (about 5 minutes the " +
	"first time), or set " + BinaryVariable + " to the program, or " + KubeconfigVariable + " to the kubeconfig of a running one")

// Options are the settings of Start. The zero value is a good one.
type Options struct {
	// Timeout bounds the start; two minutes when zero.
	Timeout time.Duration
	// Own starts a new cluster even where KubeconfigVariable names one, for tests that break it.
	Own bool
	// Args are more arguments of `devcluster up`.
	Args []string
}

// Cluster is a running Kubernetes.
type Cluster struct {
	// Config connects to it as an administrator, without client-side rate limits.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig for it.
	Kubeconfig string

	process *process
	dir     string
}

// Start brings up a cluster. The caller ends it with Stop.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if kubeconfig := os.Getenv(KubeconfigVariable); kubeconfig != "" && !o.Own {
		return connect(&Cluster{Kubeconfig: kubeconfig})
	}
	binary, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-cluster-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the cluster: %w", err)
	}
	c := &Cluster{Kubeconfig: filepath.Join(dir, "kubeconfig"), dir: dir}
	c.process, err = launch(ctx, binary, dir, o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	connected, err := connect(c)
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return connected, nil
}

// PID is the process id of a component of a cluster that Start has started, such as "apiserver" or "etcd".
func (c *Cluster) PID(component string) (int, error) {
	content, err := os.ReadFile(filepath.Join(c.dir, component+".pid"))
	if err != nil {
		return 0, fmt.Errorf("find the process of %s: %w", component, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("find the process of %s: %w", component, err)
	}
	return pid, nil
}

// Stop ends the cluster and removes its data. A cluster that was up before Start is left alone.
func (c *Cluster) Stop() error {
	if c.process == nil {
		return nil
	}
	return errors.Join(c.process.stop(), os.RemoveAll(c.dir))
}

// connect fills in the client configuration.
func connect(c *Cluster) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s of the test cluster: %w", c.Kubeconfig, err)
	}
	config.QPS, config.Burst = -1, -1
	c.Config = config
	return c, nil
}

// find looks for the devcluster program.
func find() (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s points to no program: %w", BinaryVariable, err)
		}
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for {
		path := filepath.Join(dir, "bin", "devcluster")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoBinary
		}
		dir = parent
	}
}
