package v1

import (
	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KustomizationKind is the kind of the API that holdfast reconciles.
const KustomizationKind = fluxv1.KustomizationKind

// Finalizer is the finalizer that Flux puts on its objects, and holdfast too.
const Finalizer = fluxv1.KustomizationFinalizer

// KustomizationSpec is Flux's spec and, optionally, a rollout policy.
type KustomizationSpec struct {
	fluxv1.KustomizationSpec `json:",inline"`

	// Rollout says when stale objects may be pruned and what follows a failed revision.
	// Without it the controller's defaults hold.
	// +optional
	Rollout *RolloutPolicy `json:"rollout,omitempty"`
}

// KustomizationStatus is Flux's status and, under rollout, all that holdfast adds.
type KustomizationStatus struct {
	fluxv1.KustomizationStatus `json:",inline"`

	// Rollout is the state of the current revision's way through the phases, and what is kept from pruning.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
}

// Kustomization is the Schema for the kustomizations API.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ks,categories=all;fluxcd;fluxcd-appliers
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="kustomize.toolkit.fluxcd.io/substitute=disabled"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description=""
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description=""
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",description=""
type Kustomization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec KustomizationSpec `json:"spec,omitempty"`
	// +kubebuilder:default:={"observedGeneration":-1}
	Status KustomizationStatus `json:"status,omitempty"`
}

// KustomizationList contains a list of kustomizations.
//
// +kubebuilder:object:root=true
type KustomizationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Kustomization `json:"items"`
}

// Flux returns a copy of the object in Flux's own type, for libraries that take it.
func (in *Kustomization) Flux() *fluxv1.Kustomization {
	return &fluxv1.Kustomization{
		TypeMeta:   in.TypeMeta,
		ObjectMeta: *in.ObjectMeta.DeepCopy(),
		Spec:       *in.Spec.KustomizationSpec.DeepCopy(),
		Status:     *in.Status.KustomizationStatus.DeepCopy(),
	}
}

// GetConditions returns the status conditions.
func (in *Kustomization) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the status conditions.
func (in *Kustomization) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}
