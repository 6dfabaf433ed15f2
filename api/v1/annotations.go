package v1

// AnnotationPrefix is the prefix of every annotation that holdfast reads and Flux does not have.
const AnnotationPrefix = "holdfast.dev/"

// The annotations. Those that stand for a field of spec.rollout are for clusters with Flux's own CRD, whose API server
// refuses the field.
const (
	AnnotationPruneOrder    = AnnotationPrefix + "prune-order"
	AnnotationRetain        = AnnotationPrefix + "retain"
	AnnotationMaxPrune      = AnnotationPrefix + "max-prune"
	AnnotationOnFailure     = AnnotationPrefix + "on-failure"
	AnnotationKeepRevisions = AnnotationPrefix + "keep-revisions"
	AnnotationSoak          = AnnotationPrefix + "soak"
	AnnotationRollbackOn    = AnnotationPrefix + "rollback-on"
	AnnotationReferences    = AnnotationPrefix + "references"
	// AnnotationPrune has two places: on a Kustomization it holds the rules of spec.rollout.prune, and on any managed
	// object the time of that object's pruning.
	AnnotationPrune        = AnnotationPrefix + "prune"
	AnnotationConfirmPrune = AnnotationPrefix + "confirm-prune"
	// The commands of a person about revisions. Each value counts once.
	AnnotationRollback    = AnnotationPrefix + "rollback"
	AnnotationRelease     = AnnotationPrefix + "release"
	AnnotationRetry       = AnnotationPrefix + "retry"
	AnnotationReleaseKept = AnnotationPrefix + "release-kept"
	// AnnotationPause stops a Kustomization as spec.suspend does, until the time that it names.
	AnnotationPause = AnnotationPrefix + "pause"
	// AnnotationRival, on a managed workload that looks like a controller of Flux, says what to do with it.
	AnnotationRival = AnnotationPrefix + "rival"
)

// RivalApply is the value of AnnotationRival with which a workload is applied like any other.
const RivalApply = "Apply"

// Annotation describes one annotation for people.
type Annotation struct {
	// Key is the full key.
	Key string
	// On is what carries it: "Kustomization" or "managed object".
	On string
	// Values are what it may say.
	Values string
	// Field is the field of the spec that it stands for; empty for none.
	Field string
}

// What carries an annotation.
const (
	OnKustomization = "Kustomization"
	OnManagedObject = "managed object"
)

// Annotations is the table of all annotations. docs/guide/policy.md shows the same, and a test compares the two.
var Annotations = []Annotation{
	{Key: AnnotationPruneOrder, On: OnKustomization, Values: "AfterHealthy, AfterApply", Field: "pruneOrder"},
	{Key: AnnotationRetain, On: OnKustomization, Values: "InUse, History, None", Field: "retain"},
	{Key: AnnotationMaxPrune, On: OnKustomization, Values: "a count such as 10, or a percentage such as 20%", Field: "maxPrune"},
	{Key: AnnotationPrune, On: OnKustomization, Values: "rules KIND[/NAME]=WHEN, separated by commas", Field: "prune"},
	{Key: AnnotationOnFailure, On: OnKustomization, Values: "Hold, Rollback", Field: "onFailure"},
	{Key: AnnotationKeepRevisions, On: OnKustomization, Values: "a count such as 3", Field: "keepRevisions"},
	{Key: AnnotationSoak, On: OnKustomization, Values: "a duration such as 10m", Field: "soak"},
	{Key: AnnotationRollbackOn, On: OnKustomization, Values: "BadRelease, Any", Field: "rollbackOn"},
	{Key: AnnotationReferences, On: OnKustomization, Values: "rules KIND.GROUP:PATH=TARGETKIND, separated by commas", Field: "references"},
	{Key: AnnotationConfirmPrune, On: OnKustomization, Values: "the digest in status.rollout.pendingPrune"},
	{Key: AnnotationRollback, On: OnKustomization, Values: "written by `holdfast rollback`"},
	{Key: AnnotationRelease, On: OnKustomization, Values: "written by `holdfast release`"},
	{Key: AnnotationRetry, On: OnKustomization, Values: "written by `holdfast retry`"},
	{Key: AnnotationPause, On: OnKustomization, Values: "written by `holdfast pause`"},
	{Key: AnnotationReleaseKept, On: OnKustomization, Values: "the digest in status.rollout.releasable"},
	{Key: AnnotationPrune, On: OnManagedObject, Values: "Immediate, WhenHealthy, WhenUnused, Confirm"},
	{Key: AnnotationRival, On: OnManagedObject, Values: "Apply: it is no controller of Flux, or is to run all the same"},
}
