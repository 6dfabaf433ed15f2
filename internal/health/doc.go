// Package health says how an object of the cluster is doing, and what that means for a revision.
//
// The model: Judge reads one object and returns a Verdict; Fold takes the verdicts of a revision together and returns
// the state of the whole, with the objects that are to blame. Verdicts are those of kstatus (fluxcd/cli-utils), since
// Flux's users know them, with rules on top for what kstatus misjudges: Jobs that still run, update strategies that
// leave old pods alone on purpose, paused and scaled-down workloads, and custom resources that nobody has looked at yet.
//
// An object is judged on the generation that was written, never on what its controller said about an older one: a
// status that lags is InProgress.
//
// What lives here is pure: no client, context or logger, and the time is an input. What a rule needs to know beside the
// object is in Options, such as that no pod asks for a claim yet.
package health
