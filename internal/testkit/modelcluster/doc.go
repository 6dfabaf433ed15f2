// Package modelcluster is a Kubernetes API server, its controllers and its kubelets in memory, as far as a GitOps
// controller can tell them from real ones.
//
// The server keeps what matters for safety: UIDs, one growing resourceVersion, generations, preconditions, optimistic
// locks, dry-runs, field ownership of server-side apply, finalizers, pages of a list that all show one state, kinds that come and go
// with their definition, and namespaces that take their contents along. The controllers roll Deployments over by
// ReplicaSets and Pods, StatefulSets and DaemonSets by ControllerRevisions, run Jobs, one write at a time, and a Pod starts only
// if the configuration that it names is there.
//
// Nothing in it has a clock, a goroutine or a random number of its own. Whoever drives it decides which request is served
// next, and which controller acts; see Gate and Cluster.Work.
package modelcluster
