// Package v1 holds the Kustomization API that holdfast serves.
//
// The group, version and kind are Flux's (kustomize.toolkit.fluxcd.io/v1), and so are spec and status: both embed the
// types that Flux publishes, so that a manifest, a client or an exported status moves between the two without a change.
// What holdfast adds is optional and stands in two places only: spec.rollout and status.rollout.
//
// Constants for the condition reasons, retention reasons and annotations that users meet live here too. Nothing that
// decides or acts does.
//
// +kubebuilder:object:generate=true
// +groupName=kustomize.toolkit.fluxcd.io
package v1
