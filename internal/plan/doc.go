// Package plan decides. It is the core of holdfast: what may be deleted and what is kept and why, and how a
// revision goes from one phase to the next.
//
// The model: Facts go in, a Plan comes out. Facts are what the shell saw (the inventory, the build, each stale
// object as read by a GET of its own, its users, the verdict on health, the policy, the time). A Plan says which
// objects to delete, in order and bound to the UID and resourceVersion that were seen; which entries leave the inventory
// without a deletion; and for all other stale objects the reason why they are kept.
//
// Deletion is denied by default. Every stale object passes a fixed list of guards (guard.go); the first that
// holds gives the reason, and only an object that none holds is deleted. The zero value of every observation is
// "unknown", and unknown holds.
//
// The package is pure: no client, clock, context, logger, randomness or goroutine. The same facts give the same plan,
// byte for byte. It must never import a Kubernetes client.
package plan
