// Package usage says which objects something that runs refers to.
//
// The model: a user is an object of the cluster that makes, or may still make, a container start: a live Pod, or
// whatever holds a pod template that can become one. A pod that restarts, or that replaces an evicted one, needs every
// object its template names, so each of these names pins that object. References reads the names out of one object;
// Find decides which objects count as users and matches their references with the objects that are asked about.
//
// The package errs to one side only. An optional reference counts, a suspended Job counts, and an object that can't be
// understood is an error, which the caller has to take for "unknown": naming one user too many delays a deletion, one
// too few breaks a workload.
//
// Besides workloads, every other object that the caller lists counts as a user while it exists: an Ingress of its
// certificate, a service account of its pull secrets, a custom resource of the pod specs in it and of every object with a
// hash in its name that it mentions. Those among them that are stale themselves count while something keeps them, and a
// stale account then keeps its role bindings, too; stale objects that only hold each other go.
//
// What lives here is pure: no client, context, clock or logger. Listing the users and deciding about a deletion don't
// belong here.
package usage
