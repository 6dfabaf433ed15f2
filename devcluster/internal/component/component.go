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
)

// The names of the components, as the supervisor gives them on the command line.
const (
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "controller-manager"
	Scheduler         = "scheduler"
	Kubelet           = "kubelet"
)

// File descriptors which the supervisor passes to a component. Number 4, in
// between, is the lock of the directory: it is held without being used, so that
// the directory stays locked while a component is left.
const (
	fdLifeline = 3
	// fdExtra is a listening socket for the API server, and for etcd a pipe
	// to write its address to.
	fdExtra = 5
)

// Run runs the named component until it fails; it does not return otherwise.
// The arguments are those of the component's own command line.
func Run(name string, args []string) error {
	go endWithSupervisor()
	ctx := context.Background()
	switch name {
	case Etcd:
		return runEtcd(args)
	case APIServer:
		return runAPIServer(ctx, args)
	case ControllerManager:
		return runControllerManager(args)
	case Scheduler:
		return runScheduler(args)
	case Kubelet:
		return runKubelet(ctx, args)
	default:
		return fmt.Errorf("no component is called %q", name)
	}
}

// endWithSupervisor ends the process at once when the supervisor is gone. No
// tidying up: the data is disposable, and what is slow to stop would be left
// behind.
func endWithSupervisor() {
	lifeline := os.NewFile(fdLifeline, "lifeline")
	if lifeline == nil {
		fmt.Fprintln(os.Stderr, "a component is started by `devcluster up` only")
		os.Exit(2)
	}
	// Nobody ever writes: a read returns when the other end is closed.
	_, _ = lifeline.Read(make([]byte, 1))
	os.Exit(0)
}
