package v1

// RetentionReason says which rule keeps a stale object from being deleted.
type RetentionReason string

// The retention reasons, as status, CLI, events and metrics show them.
const (
	// RetainedAwaitingHealth: the revision without the object is not healthy yet.
	RetainedAwaitingHealth RetentionReason = "AwaitingHealth"
	// RetainedInUse: something that runs refers to the object.
	RetainedInUse RetentionReason = "InUse"
	// RetainedRevisionHistory: a revision that a workload can be rolled back to refers to the object.
	RetainedRevisionHistory RetentionReason = "RevisionHistory"
	// RetainedPruneDisabled: an annotation or label on the object forbids pruning.
	RetainedPruneDisabled RetentionReason = "PruneDisabled"
	// RetainedPruneOff: spec.prune is false.
	RetainedPruneOff RetentionReason = "PruneOff"
	// RetainedAwaitingConfirmation: a person has to allow the deletion.
	RetainedAwaitingConfirmation RetentionReason = "AwaitingConfirmation"
	// RetainedProtected: a Namespace that is never pruned, or that still holds something.
	RetainedProtected RetentionReason = "Protected"
	// RetainedMovedElsewhere: another Kustomization has the object, or has not shown yet whether it has.
	RetainedMovedElsewhere RetentionReason = "MovedElsewhere"
	// RetainedDependentsExist: the Kustomization is being deleted, and another one that depends on it exists.
	RetainedDependentsExist RetentionReason = "DependentsExist"
	// RetainedSuperseded: the source has a newer artifact that has not been built yet and may have the object again.
	RetainedSuperseded RetentionReason = "Superseded"
	// RetainedUnverified: the object or its users could not be read, and unknown never leads to a deletion.
	RetainedUnverified RetentionReason = "Unverified"
	// RetainedDeleteFailed: the API server refused the deletion; it is tried again.
	RetainedDeleteFailed RetentionReason = "DeleteFailed"
	// RetainedTerminating: deletion was accepted and waits for finalizers.
	RetainedTerminating RetentionReason = "Terminating"
)

// Reasons of conditions and events that Flux has no constant for in its API module.
const (
	// ReasonFieldNotSupported: the spec asks for something that this version can't do; nothing is applied or pruned.
	ReasonFieldNotSupported = "FieldNotSupported"
	// ReasonInvalidPolicy: an annotation or field of the policy says what it can't; nothing is applied or pruned.
	ReasonInvalidPolicy = "InvalidPolicy"
	// ReasonRetained is the reason of the event that says that an object is kept from pruning.
	ReasonRetained = "Retained"
	// ReasonDependentsIgnored is the reason of the event that says that a deletion no longer waits for what depends on it.
	ReasonDependentsIgnored = "DependentsIgnored"
	// ReasonRolledBack: the wanted revision failed, and the last healthy one runs again.
	ReasonRolledBack = "RolledBack"
	// ReasonPinned: a person chose the revision that runs.
	ReasonPinned = "Pinned"
	// ReasonReleased is the reason of the event that says that a pin or a skip ended, or that objects were let go of and stay on the
	// cluster.
	ReasonReleased = "Released"
	// ReasonPruned is the reason of the event that lists what was pruned.
	ReasonPruned = "Pruned"
	// ReasonEmptied is the reason of the event that says that a revision has no objects on purpose, and how many are to go.
	ReasonEmptied = "Emptied"
)

// ReasonClaimedTwice is the reason of SharedObjectsCondition, and of the event about it.
const ReasonClaimedTwice = "ClaimedTwice"

// SharedObjectsCondition is True while another Kustomization wants some of the same objects.
const SharedObjectsCondition = "SharedObjects"

// ReasonNearLimit is the reason of LargeInventoryCondition, and of the event about it.
const ReasonNearLimit = "NearLimit"

// LargeInventoryCondition is True while the inventory takes most of what an API server can store.
const LargeInventoryCondition = "LargeInventory"

// PruneHeldCondition is True while a deletion waits for confirmation.
const PruneHeldCondition = "PruneHeld"

// ReasonRivalSkipped is the reason of RivalSkippedCondition, and of the event about it.
const ReasonRivalSkipped = "RivalSkipped"

// RivalSkippedCondition is True while the build holds a controller of Flux with the same work, or Flux's own definition of
// Kustomizations, which are not applied.
const RivalSkippedCondition = "RivalSkipped"

// PinnedCondition is True while a revision runs that a person chose.
const PinnedCondition = "Pinned"

// RollbackReadyCondition tells, where onFailure is Rollback or revisions are kept, whether there is a revision to go back to.
const RollbackReadyCondition = "RollbackReady"

// Labels and annotations. Those of Flux keep Flux's keys.
const (
	// OwnerNameLabel and OwnerNamespaceLabel on a managed object name its Kustomization.
	OwnerNameLabel      = "kustomize.toolkit.fluxcd.io/name"
	OwnerNamespaceLabel = "kustomize.toolkit.fluxcd.io/namespace"
	// ControlPrefix is the prefix of the control keys prune, reconcile, ssa and force on managed objects.
	ControlPrefix = "kustomize.toolkit.fluxcd.io/"
)

// Field managers.
const (
	// ApplyManager is the field manager of managed objects, the same as Flux's.
	ApplyManager = "kustomize-controller"
	// CLIManager writes the annotations by which a person controls a Kustomization. A parent's apply wipes those that
	// kubectl wrote.
	CLIManager = "holdfast-cli"
	// StatusManager writes finalizer and status, the same as Flux's.
	StatusManager = "gotk-kustomize-controller"
)
