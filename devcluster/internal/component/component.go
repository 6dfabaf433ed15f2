// Package component runs one part of a Kubernetes cluster in this process.
//
// A process runs a single component: the commands of Kubernetes install signal
// handlers and global flags when they are created, and panic when a second one
// does the same.
//
// Every component holds the read end of a pipe whose write end the supervisor
// alone holds, and ends when that pipe does. So no component outlives the
// supervisor, however that ended: the kernel closes the pipe even on SIGKILL.
// A parent-death signal would not do, since it is tied to the thread that
// started the child, and the Go runtime ends threads as it likes.
package component

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// Run runs the named component until it fails; it does not return otherwise.
// The arguments are those of the component's own command line.
func Run(name string, args []string) error {
	go endWithSupervisor()
	ctx := context.Background()
	switch name {
	case contract.Etcd:
		return runEtcd(args)
	case contract.APIServer:
		return runAPIServer(ctx, args)
	case contract.ControllerManager:
		return runControllerManager(args)
	case contract.Scheduler:
		return runScheduler(args)
	case contract.Kubelet:
		return runKubelet(ctx, args)
	default:
		return fmt.Errorf("no component is called %q", name)
	}
}

// endWithSupervisor ends the process at once when the supervisor is gone. No
// tidying up: the data is disposable, and what is slow to stop would be left
// behind.
func endWithSupervisor() {
	lifeline := os.NewFile(contract.FDLifeline, "lifeline")
	if lifeline == nil {
		fmt.Fprintln(os.Stderr, "a component is started by `devcluster up` only")
		os.Exit(2)
	}
	// Nobody ever writes: a read returns when the other end is closed.
	_, _ = lifeline.Read(make([]byte, 1))
	os.Exit(0)
}
