// Package gitrepository is the controller of Flux's GitRepository: it resolves a reference, fetches its commit when it is
// a new one, publishes it as an artifact and says so in the status.
//
// A reconciliation has three parts. sync does the work and returns an outcome; statusOf, a pure function, turns the
// outcome into the status, and eventsOf into events; the reconciler writes the status once, if it changed. What fails
// leaves the former artifact in the status, so that consumers go on with it.
//
// Fields of the spec that are not supported are refused by name, because ignoring one could publish content that its
// owner meant to be verified or left out.
//
// How to talk to a Git server is not known here (internal/source/git), nor how artifacts are kept (internal/artifact).
//
// The controller needs these rights:
//
//	source.toolkit.fluxcd.io  gitrepositories             get list watch patch update
//	source.toolkit.fluxcd.io  gitrepositories/status      get patch update
//	source.toolkit.fluxcd.io  gitrepositories/finalizers  get patch update
//	core                      secrets                     get
//	core                      events                      create patch
package gitrepository
