// Package contract is what the supervisor and the components agree on. It is
// apart from both so that the supervisor, and its tests, need not contain
// Kubernetes.
package contract

// The names of the components, as the supervisor gives them on the command line.
const (
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "controller-manager"
	Scheduler         = "scheduler"
	Kubelet           = "kubelet"
)

// Components are all of them.
var Components = []string{Etcd, APIServer, ControllerManager, Scheduler, Kubelet}

// File descriptors which the supervisor passes to a component. FDLock is held
// without being used, so that the directory stays locked while a component is
// left. FDExtra is a listening socket for the API server, and for etcd a pipe
// to write its address to.
const (
	FDLifeline = 3
	FDLock     = 4
	FDExtra    = 5
)

// FatalPrefix begins the line in which a component says why it ends.
const FatalPrefix = "devcluster: "
