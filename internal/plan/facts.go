package plan

import (
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// Facts are all that a decision about stale objects depends on.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Owner is the Kustomization that decides.
	Owner Owner
	// Policy is what the user asked for.
	Policy Policy
	// Build is the desired set and where it stands.
	Build Build
	// Stale are the objects in the inventory that the build lacks, each with what was seen of it.
	Stale []Stale
	// Siblings are the other Kustomizations.
	Siblings Siblings
	// DependsOn are the Kustomizations that this one depends on.
	DependsOn []Owner
	// Aside is the revision that the source wants and that is not applied; nil for none.
	Aside *Aside
	// Finalizing is true while the Kustomization itself is being deleted: nothing is wanted any more, and there is
	// no revision whose health could be awaited.
	Finalizing bool
	// LeavingSince is when its deletion was first worked on, if it is finalizing.
	LeavingSince time.Time
}

// Owner names a Kustomization, and the namespaces that must outlive it.
type Owner struct {
	Name, Namespace string
	// ControllerNamespace is the namespace the controller runs in.
	ControllerNamespace string
}

// is tells whether an object is this very Kustomization.
func (o Owner) is(id object.ID) bool { return id == o.id() }

// id is the identity of the Kustomization as an object.
func (o Owner) id() object.ID {
	return object.ID{Group: v1.GroupVersion.Group, Kind: "Kustomization", Namespace: o.Namespace, Name: o.Name}
}

// key is the Kustomization without what depends on who looks at it.
func (o Owner) key() Owner { return Owner{Name: o.Name, Namespace: o.Namespace} }

// Policy is the part of the spec that bears on deletion.
type Policy struct {
	// Prune is spec.prune, or what the deletion policy makes of it while finalizing.
	Prune bool
	// Order is AfterHealthy or AfterApply; empty is AfterHealthy.
	Order v1.PruneOrder
	// Retain is InUse, History or None; empty is InUse.
	Retain v1.RetainPolicy
	// Max is how much goes at a time without a word from a person.
	Max policy.Limit
	// Rules set the time of pruning for kinds and names.
	Rules []v1.PruneRule
	// Timeout bounds the waits between two waves of a deletion.
	Timeout time.Duration
	// RetryInterval is the time between two tries of a deletion that was refused.
	RetryInterval time.Duration
}

// Build is the desired set.
type Build struct {
	// Revision is the source revision that was built.
	Revision string
	// Brings is the revision whose health counts, where a stored one is brought back; empty when it is Revision.
	Brings string
	// Newest is the newest revision that the source has; while it differs from Revision nothing is deleted, since
	// the newest may have the object again. While finalizing it is what siblings are to have built; empty if not known.
	Newest string
	// Desired are the objects of the build. Objects that are skipped by the apply are desired too.
	Desired object.Set
	// Applied is true when the build was applied in full. Before that nothing goes but what has to make way for it.
	Applied bool
	// Healthy is true when the build, applied in full, was seen to be healthy, and for as long as the policy asks for.
	Healthy bool
	// SoakEnd is when a build that is healthy will have been so for long enough; zero when it is not healthy, or was.
	SoakEnd time.Time
	// EmptyUnproven is true when the build holds nothing and nobody said that it shall: a directory without
	// manifests, as opposed to `resources: []`.
	EmptyUnproven bool
}

// Aside is a revision that failed, or that a person passed over, while an older one runs.
type Aside struct {
	// Revision names it.
	Revision string
	// Since is when it was first applied; zero if it never was.
	Since time.Time
	// Wants are its objects.
	Wants object.Set
}

// Stale is one object that the inventory holds and the build lacks.
type Stale struct {
	ID   object.ID
	Seen Observation
	Use  Use
	// Refused is the last refusal of its deletion, if any.
	Refused *Refusal
	// WasPruneOff is true when the object became stale while pruning was off.
	WasPruneOff bool
	// Lingering is true when it stayed for its users, or for the history, as the last pass left it: the revision that it
	// left with was pruned before.
	Lingering bool
	// Confirmed is the UID of the object whose deletion a person allowed; empty for none.
	Confirmed string
	// Released is true when a person let go of the object, which is to stay on the cluster.
	Released bool
}

// Presence says whether an object is there.
type Presence int

// The zero value is unknown: an observation that nobody made must not lead to a deletion.
const (
	Unknown Presence = iota
	Absent
	Present
)

// Observation is what a GET of the object's own showed.
type Observation struct {
	Presence Presence
	// Why says what kept the object from being read, when unknown.
	Why string
	// CreatedAt is when the object was created.
	CreatedAt time.Time
	// UID and ResourceVersion of the read become the preconditions of the deletion.
	UID, ResourceVersion string
	// OwnerName and OwnerNamespace are the values of the owner labels.
	OwnerName, OwnerNamespace string
	// DisabledBy is the control key and value that forbids pruning, such as "prune: disabled"; empty if none.
	DisabledBy string
	// When is what the annotation holdfast.dev/prune says, understood or not; empty for none.
	When v1.PruneWhen
	// DeletedAt is when deletion was accepted; zero if it was not.
	DeletedAt time.Time
	// Finalizers that a deletion waits for.
	Finalizers []string
}

// Use is what was found of the users of an object.
type Use struct {
	// Known is true when the users could be listed in full.
	Known bool
	// Why says what kept the users from being listed.
	Why string
	// Users are those that refer to the object, as Kind/namespace/name.
	Users []string
	// Past are the ReplicaSets and ControllerRevisions that refer to the object, and from which nothing runs any more.
	Past []string
}

// Refusal is a deletion that the API server did not accept.
type Refusal struct {
	At      time.Time
	Message string
}
