package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PruneOrder says when stale objects may be deleted at the earliest.
type PruneOrder string

const (
	// PruneAfterHealthy prunes once the revision that no longer has the object is healthy. The default.
	PruneAfterHealthy PruneOrder = "AfterHealthy"
	// PruneAfterApply prunes right after the apply, before the health check and without regard to users: Flux's order.
	PruneAfterApply PruneOrder = "AfterApply"
)

// RetainPolicy says how long a stale object outlives the revision that had it.
type RetainPolicy string

const (
	// RetainInUse keeps a stale object while something that runs refers to it. The default.
	RetainInUse RetainPolicy = "InUse"
	// RetainHistory keeps it, too, while a ReplicaSet or ControllerRevision in the history refers to it.
	RetainHistory RetainPolicy = "History"
	// RetainNone lets a stale object go without a look at its users.
	RetainNone RetainPolicy = "None"
)

// PruneWhen is the time at which one stale object may be pruned.
type PruneWhen string

const (
	// PruneImmediate deletes the object before the revision that lacks it is applied, for one whose replacement can't
	// live beside it. Neither health nor users hold it.
	PruneImmediate PruneWhen = "Immediate"
	// PruneWhenHealthy deletes it once the revision that lacks it is healthy, without a look at its users.
	PruneWhenHealthy PruneWhen = "WhenHealthy"
	// PruneWhenUnused deletes it once the revision that lacks it is healthy and nothing uses the object. The default.
	PruneWhenUnused PruneWhen = "WhenUnused"
	// PruneConfirm deletes it as the policy says, but not before a person confirmed it.
	PruneConfirm PruneWhen = "Confirm"
)

// OnFailure says what follows a revision that fails its verification.
type OnFailure string

const (
	// OnFailureHold keeps everything and goes on watching. The default.
	OnFailureHold OnFailure = "Hold"
	// OnFailureRollback brings the last healthy revision back.
	OnFailureRollback OnFailure = "Rollback"
)

// RollbackOn says which failures are rolled back.
type RollbackOn string

const (
	// RollbackOnBadRelease rolls back a fault of the revision's own workloads. The default.
	RollbackOnBadRelease RollbackOn = "BadRelease"
	// RollbackOnAny rolls back whatever kept the revision from being healthy.
	RollbackOnAny RollbackOn = "Any"
)

// RolloutPolicy says when stale objects may be pruned and what follows a failed revision. All fields are optional.
type RolloutPolicy struct {
	// PruneOrder is AfterHealthy (the default) or AfterApply, which is what Flux does.
	// +kubebuilder:validation:Enum=AfterHealthy;AfterApply
	// +optional
	PruneOrder PruneOrder `json:"pruneOrder,omitempty"`

	// Prune holds rules for single kinds and names.
	// +optional
	Prune []PruneRule `json:"prune,omitempty"`

	// Retain says how long a stale object is kept for those that use it: InUse (the default), History or None.
	// +kubebuilder:validation:Enum=InUse;History;None
	// +optional
	Retain RetainPolicy `json:"retain,omitempty"`

	// OnFailure is Hold (the default: keep everything) or Rollback: bring the last healthy revision back when the verification of
	// a new one fails. Rollback implies wait where there are no healthChecks.
	// +kubebuilder:validation:Enum=Hold;Rollback
	// +optional
	OnFailure OnFailure `json:"onFailure,omitempty"`

	// MaxPrune is a count or a percentage of the inventory; a larger prune waits for confirmation.
	// +optional
	MaxPrune *intstr.IntOrString `json:"maxPrune,omitempty"`

	// KeepRevisions is the number of healthy revisions whose rendered objects are stored for a rollback, in Secrets beside the
	// Kustomization: 3 with onFailure: Rollback, else 0. The last healthy one is always among them.
	// +kubebuilder:validation:Minimum=0
	// +optional
	KeepRevisions *int32 `json:"keepRevisions,omitempty"`

	// Soak is how long a revision must stay healthy, without a break, before it counts as the last healthy one and what it
	// replaced may be pruned. A relapse, or a restart of the controller, starts it over.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +optional
	Soak *metav1.Duration `json:"soak,omitempty"`

	// RollbackOn is BadRelease (the default: only a fault of the revision's own workloads is rolled back, not a full cluster or
	// a registry that does not answer) or Any.
	// +kubebuilder:validation:Enum=BadRelease;Any
	// +optional
	RollbackOn RollbackOn `json:"rollbackOn,omitempty"`

	// References are extra rules for how custom resources refer to objects. An object that one of them names is in use.
	// +optional
	References []ReferenceRule `json:"references,omitempty"`
}

// PruneRule sets the time of pruning for objects of a kind, by name.
type PruneRule struct {
	// Kind of the objects, without group.
	// +required
	Kind string `json:"kind"`
	// Name of the object, for a generated one without the hash; empty for all of the kind.
	// +optional
	Name string `json:"name,omitempty"`
	// When is Immediate, WhenHealthy, WhenUnused or Confirm.
	// +kubebuilder:validation:Enum=Immediate;WhenHealthy;WhenUnused;Confirm
	// +required
	When PruneWhen `json:"when"`
}

// ReferenceRule says where a custom resource names an object that it needs. The object is of the same namespace, unless one of
// the two is cluster-scoped.
type ReferenceRule struct {
	// Group of the custom resource.
	// +required
	Group string `json:"group"`
	// Kind of the custom resource.
	// +required
	Kind string `json:"kind"`
	// Path to the name: fields separated by dots, such as spec.tls[*].secretName. [*] stands for every item of a list, and
	// ['a.b'] for a field whose name has dots.
	// +required
	Path string `json:"path"`
	// TargetKind is the kind of the object that is named, without group, such as Secret.
	// +required
	TargetKind string `json:"targetKind"`
}

// Phase is the place of a revision on its way from Git to a pruned cluster.
type Phase string

// The phases as status.rollout.phase and the CLI show them.
const (
	PhaseApplying  Phase = "Applying"
	PhaseVerifying Phase = "Verifying"
	PhasePruning   Phase = "Pruning"
	PhaseHealthy   Phase = "Healthy"
	PhaseHeld      Phase = "Held"
	PhaseRefused   Phase = "Refused"
	PhaseWaiting   Phase = "Waiting"
)

// RevisionDigest names a revision together with what it renders to.
type RevisionDigest struct {
	// Revision of the source, such as main@sha1:<commit>.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Digest of the rendered objects, as sha256:<hex>.
	// +optional
	Digest string `json:"digest,omitempty"`
	// At is when this came to hold.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
}

// StoredRevision is a revision that is stored for a rollback.
type StoredRevision struct {
	RevisionDigest `json:",inline"`

	// Checksum of what is stored, as sha256:<hex>. Nothing else is applied in its name.
	// +optional
	Checksum string `json:"checksum,omitempty"`
}

// RolloutStatus is all of holdfast's own status.
type RolloutStatus struct {
	// Phase of the wanted revision.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Since is when the phase began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// Deadline is when verification gives up. It is set when the verification begins and taken over by later
	// revisions that render the same objects.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// Wanted is the revision that the phase speaks of, and the digest of what it renders.
	// +optional
	Wanted *RevisionDigest `json:"wanted,omitempty"`

	// WantedGeneration is the generation of the spec that Wanted was built with.
	// +optional
	WantedGeneration int64 `json:"wantedGeneration,omitempty"`

	// Verified says that the wanted digest was seen healthy since it was applied.
	// +optional
	Verified bool `json:"verified,omitempty"`

	// Soaked is how long they had to stay healthy for that. A longer spec.rollout.soak has to pass anew.
	// +optional
	Soaked *metav1.Duration `json:"soaked,omitempty"`

	// HealthySince is since when the wanted objects are seen healthy without a break, while spec.rollout.soak has not passed.
	// +optional
	HealthySince *metav1.Time `json:"healthySince,omitempty"`
	// Began is when the rollout of the wanted revision began.
	// +optional
	Began *metav1.Time `json:"began,omitempty"`

	// Running is the last revision that was applied in full.
	// +optional
	Running *RevisionDigest `json:"running,omitempty"`

	// LastHealthy is the last revision whose verification passed.
	// +optional
	LastHealthy *RevisionDigest `json:"lastHealthy,omitempty"`

	// Stored are the revisions that are stored for a rollback, the newest first.
	// +optional
	Stored []StoredRevision `json:"stored,omitempty"`

	// Skipped is the revision that the source wants and that is not applied: since it failed, or since a person chose another
	// one.
	// +optional
	Skipped *SkippedRevision `json:"skipped,omitempty"`

	// Pin is the revision that a person chose.
	// +optional
	Pin *Pin `json:"pin,omitempty"`

	// History are the rollouts of the last time, the newest first. At most 10.
	// +optional
	History []RolloutRecord `json:"history,omitempty"`

	// LeftAsIs are the objects that could not be brought back to the revision that runs, as Kind/namespace/name with the
	// reason. At most 10.
	// +optional
	LeftAsIs []string `json:"leftAsIs,omitempty"`

	// Heard are the commands of a person that were taken up, so that each counts once.
	// +optional
	Heard *Heard `json:"heard,omitempty"`

	// Retained are the stale objects that are not deleted yet, with the reason of each. Bounded; RetainedCount has the
	// full number.
	// +optional
	Retained []RetainedObject `json:"retained,omitempty"`

	// RetainedCount is the number of all retained objects.
	// +optional
	RetainedCount int32 `json:"retainedCount,omitempty"`

	// PendingPrune is the deletion that waits for confirmation: the retained objects with the reason AwaitingConfirmation
	// and a UID.
	// +optional
	PendingPrune *PendingPrune `json:"pendingPrune,omitempty"`

	// Releasable are the retained objects that left the source while pruning was off, so that a person may leave them on the
	// cluster for good.
	// +optional
	Releasable *ReleasableObjects `json:"releasable,omitempty"`

	// CompletedJobs are the Jobs of the build that were seen to complete and that their ttlSecondsAfterFinished removes, so that
	// they are not run again. At most 100.
	// +optional
	CompletedJobs []CompletedJob `json:"completedJobs,omitempty"`

	// Culprits are the objects that keep the wanted revision from being healthy. At most 10.
	// +optional
	Culprits []Culprit `json:"culprits,omitempty"`
}

// RolloutResult says how a rollout ended.
type RolloutResult string

const (
	// ResultRunning: it has not ended.
	ResultRunning RolloutResult = "Running"
	// ResultHealthy: it was healthy.
	ResultHealthy RolloutResult = "Healthy"
	// ResultFailed: it failed, and everything was kept.
	ResultFailed RolloutResult = "Failed"
	// ResultRolledBack: it failed, and the last healthy revision was brought back.
	ResultRolledBack RolloutResult = "RolledBack"
	// ResultSuperseded: another one came first.
	ResultSuperseded RolloutResult = "Superseded"
)

// What began a rollout.
const (
	// TriggerSource: the source or the spec renders something else.
	TriggerSource = "source"
	// TriggerRollback: a revision that failed was rolled back.
	TriggerRollback = "rollback"
	// TriggerPin: a person chose a revision.
	TriggerPin = "pin"
	// TriggerRetry: a person asked to try it again.
	TriggerRetry = "retry"
)

// RolloutRecord is one rollout.
type RolloutRecord struct {
	// Number counts the rollouts of the Kustomization.
	Number int64 `json:"number"`
	// Revision and Digest name what was rolled out.
	Revision string `json:"revision"`
	Digest   string `json:"digest"`
	// Trigger is source, rollback, pin or retry.
	Trigger string `json:"trigger"`
	// Result says how it ended.
	Result RolloutResult `json:"result"`
	// Started is when it began, and Ended when its result was known.
	Started metav1.Time `json:"started"`
	// +optional
	Ended *metav1.Time `json:"ended,omitempty"`
	// Note is what was wrong with it, or who asked for it and why.
	// +optional
	Note string `json:"note,omitempty"`
}

// Why a revision is skipped.
const (
	// SkippedFailed: its verification failed, and the last healthy revision was brought back.
	SkippedFailed = "HealthCheckFailed"
	// SkippedPinned: a person chose another revision.
	SkippedPinned = "Pinned"
)

// SkippedRevision is a revision that the source wants and that is not applied.
type SkippedRevision struct {
	// RevisionDigest names it; At is since when it is skipped.
	RevisionDigest `json:",inline"`
	// Generation of the spec that it was built with.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Reason is HealthCheckFailed or Pinned.
	// +required
	Reason string `json:"reason"`
	// Message says what was wrong with it.
	// +optional
	Message string `json:"message,omitempty"`
	// Began is when it was first applied: what is older was not made by it.
	// +optional
	Began *metav1.Time `json:"began,omitempty"`
	// Compared is true when New is known: it was built, and compared with the revision that runs.
	// +optional
	Compared bool `json:"compared,omitempty"`
	// New are the objects that it has and the revision that runs has not, as in the inventory. At most 100.
	// +optional
	New []string `json:"new,omitempty"`
	// NewCount is the number of all of them.
	// +optional
	NewCount int32 `json:"newCount,omitempty"`
}

// Pin is the choice of a revision by a person.
type Pin struct {
	// RevisionDigest names the revision; At is when it was chosen.
	RevisionDigest `json:",inline"`
	// Until is what ends the pin besides `holdfast release`: "next" (the source renders something else), "released"
	// (nothing), or a time.
	// +optional
	Until string `json:"until,omitempty"`
	// By is who chose it, as the command line named the person.
	// +optional
	By string `json:"by,omitempty"`
	// Reason is why, in the person's words.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Heard are the last commands that were taken up, by the value of their annotation.
type Heard struct {
	// +optional
	Rollback string `json:"rollback,omitempty"`
	// +optional
	Release string `json:"release,omitempty"`
	// +optional
	Retry string `json:"retry,omitempty"`
}

// RollbackRequest is the value of the annotation holdfast.dev/rollback, as JSON.
type RollbackRequest struct {
	// To is the digest of the stored revision.
	To string `json:"to"`
	// Until is "next", "released" or a time in the form of RFC 3339.
	Until string `json:"until"`
	// By is the name of the person, Reason why, and At when.
	By     string      `json:"by,omitempty"`
	Reason string      `json:"reason,omitempty"`
	At     metav1.Time `json:"at"`
}

// RetainedObject is a stale object that is kept, and why.
type RetainedObject struct {
	// ID of the object as in the inventory: <namespace>_<name>_<group>_<kind>.
	// +required
	ID string `json:"id"`
	// Reason is the first rule that holds the object.
	// +required
	Reason RetentionReason `json:"reason"`
	// Message says what the reason alone does not, such as an error of the API server.
	// +optional
	Message string `json:"message,omitempty"`
	// UID of the object, where its deletion waits for confirmation or was confirmed.
	// +optional
	UID string `json:"uid,omitempty"`
	// Confirmed says that a person allowed the deletion of the object with this UID.
	// +optional
	Confirmed bool `json:"confirmed,omitempty"`
	// Released says that a person lets go of the object: it stays on the cluster, and its entry leaves the inventory.
	// +optional
	Released bool `json:"released,omitempty"`
	// Since is when the object began to be retained.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Users are those that still refer to the object, as Kind/namespace/name; at most 5.
	// +optional
	Users []string `json:"users,omitempty"`
	// UserCount is the number of all users.
	// +optional
	UserCount int32 `json:"userCount,omitempty"`
	// Until says in words what ends the retention.
	// +optional
	Until string `json:"until,omitempty"`
}

// PendingPrune is a deletion that waits for confirmation.
type PendingPrune struct {
	// Digest over the ids, UIDs and times of exactly the objects that are shown as waiting. The annotation
	// holdfast.dev/confirm-prune with this value allows their deletion, and no other.
	// +required
	Digest string `json:"digest"`
	// Count is the number of these objects.
	// +required
	Count int32 `json:"count"`
	// Message says what would be deleted, by kind, and why it waits.
	// +optional
	Message string `json:"message,omitempty"`
}

// ReleasableObjects are objects that a person may leave on the cluster for good.
type ReleasableObjects struct {
	// Digest over the ids and times of exactly those of the objects that are shown as retained. The annotation
	// holdfast.dev/release-kept with this value lets go of them, and of no other.
	// +required
	Digest string `json:"digest"`
	// Count is the number of all of them.
	// +required
	Count int32 `json:"count"`
}

// CompletedJob is a Job that has run.
type CompletedJob struct {
	// ID of the Job as in the inventory.
	// +required
	ID string `json:"id"`
	// Digest of its manifest.
	// +required
	Digest string `json:"digest"`
	// NamespaceUID is the UID of the Namespace that it ran in. It has not run in one of that name on another cluster, nor in one
	// that was made anew.
	// +optional
	NamespaceUID types.UID `json:"namespaceUID,omitempty"`
	// Expires is when its ttlSecondsAfterFinished ends. One that is gone before was deleted by hand, and is run again.
	// +required
	Expires metav1.Time `json:"expires"`
}

// Culprit is an object that is not healthy.
type Culprit struct {
	// ID of the object as Kind/namespace/name.
	// +required
	ID string `json:"id"`
	// Pod and Container are where it goes wrong, if that is known.
	// +optional
	Pod string `json:"pod,omitempty"`
	// +optional
	Container string `json:"container,omitempty"`
	// Reason is a short word such as the object's health status, or Kubernetes' reason for the container.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says what is wrong.
	// +optional
	Message string `json:"message,omitempty"`
}
