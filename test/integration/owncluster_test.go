package integration

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-gitops/holdfast/internal/testkit/cluster"
)

// ownClusterVariable names the test that this process runs alone, on a cluster that it may break.
const ownClusterVariable = "HOLDFAST_TEST_OWN_CLUSTER"

// requestTimeout is when the API server of such a cluster gives a request up.
const requestTimeout = 4 * time.Second

// clusterOptions are the options of the cluster of this process.
func clusterOptions() cluster.Options {
	if os.Getenv(ownClusterVariable) == "" {
		return cluster.Options{}
	}
	return cluster.Options{Own: true, Args: []string{"--restart-apiserver", "--apiserver-arg=--request-timeout=" + requestTimeout.String()}}
}

// ownCluster tells whether the test may break the cluster. If not, it has run by then: in a process of its own, with a cluster of
// its own, since no other test could stand what it does. What that process prints is logged.
func ownCluster(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownClusterVariable) == t.Name() {
		return true
	}
	pattern := "^" + t.Name() + "$"
	if _, subtests, found := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); found {
		pattern += "/" + subtests
	}
	args := []string{"-test.v", "-test.run=" + pattern}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+time.Until(end).String())
	}
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), ownClusterVariable+"="+t.Name())
	output, err := command.CombinedOutput()
	t.Logf("in a process of its own:\n%s", output)
	if err != nil {
		t.Errorf("it failed: %v", err)
	}
	return false
}
