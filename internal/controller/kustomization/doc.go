// Package kustomization is the thin shell around the planner: it reconciles Kustomizations.
//
// One reconciliation is a pass: a list of short steps (checkSpec, resolve, build, record, makeWay, apply, verify, prune), each
// of which either goes on to the next or ends the pass with an outcome. No step waits for the cluster. What is not
// ready yet ends the pass, and the next one starts over from the status; so a pass can be cut off anywhere and repeated.
//
// What lives here is the order of the steps, the reading of facts for package plan, and the status that a person sees.
// What does not: rules about deletion (plan), reads and writes of managed objects (observe, execute), and rendering (build).
package kustomization
