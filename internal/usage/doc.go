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
// What lives here is pure: no client, context, clock or logger. Listing the users, deciding about a deletion, and
// references out of custom resources by exact match of a name don't belong here.
package usage
