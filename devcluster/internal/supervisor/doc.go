// Package supervisor runs a cluster: it prepares a directory, starts the
// components as child processes, says when a pod can run, and leaves nothing
// behind however it ends.
//
// Everything a cluster writes is below one directory, which belongs to one
// running cluster at a time (a lock which every process of the cluster holds).
// Starting again on a directory continues with its objects, credentials and,
// if it is free, port, so that a kubeconfig once read stays good. Pods are
// started anew, since their containers were never there.
//
// Only the API server has a port known to others. The supervisor binds it and
// passes the socket on; etcd binds a port that the kernel chooses and reports
// it; the other components serve nothing. So clusters beside each other cannot
// get in each other's way.
package supervisor
