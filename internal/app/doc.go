// Package app is the process: it turns flags into settings and runs the controllers with them.
//
// Flags has every flag of Flux's kustomize-controller, by name and with its default, and the storage flags of its
// source-controller. What holdfast does not do yet is refused when it is set, by name; nothing is accepted and then
// ignored, except for settings that describe what holdfast does anyway. Flags.Resolve gives Options.
//
// Run checks that the cluster has the right CRDs and runs the manager until its context ends. It keeps no state outside
// its arguments, so that tests can run it in their own process, several times and at the same time.
package app
