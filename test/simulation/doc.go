// Package simulation runs the real controller in a world that a seed makes up, and checks after each step what must never
// happen.
//
// Real are package kustomization with all that it uses: the planner, observe, execute, usage, health, inventory, trigger. The API
// server, workloads, nodes, people, Git and the clock are models (package modelcluster and this one). A scheduler lets one thing
// happen at a time: a request of a controller, a write of the cluster's own controllers, an event. So a crash, a
// fault or another writer can come between any two requests, and every run can be repeated by its seed.
//
// The invariants are those of docs/safety.md:
//
//   - never deleted: what is wanted, in use, disabled, foreign, moved, or held by policy (check_delete.go, which also says
//     what a controller can't know, and probe.go, which tries out what would not start any more);
//   - never orphaned: what was applied is in the inventory, or gone, or someone else's (check_write.go);
//   - never stuck: once the faults end and the source is sound, all that is stale and unused goes (settle.go);
//   - repeatable: at rest, another pass writes nothing (settle.go);
//   - rollback: docs/guide/rollback.md, rule by rule (rollback.go);
//   - no value of a Secret in a text for people (secrets.go).
package simulation
