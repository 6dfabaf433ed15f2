package gitrepository

import (
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// outcome is what a reconciliation came to.
type outcome struct {
	// artifact is what the status names from now on; the former one after a failure.
	artifact *meta.Artifact
	// stored tells whether the file of artifact is there, whole and unchanged.
	stored bool
	// content is what artifact was made of.
	content content
	// proof is what was verified of it; nil when nothing was.
	proof *proof
	// published is set when artifact is new.
	published *published
	// failure is set when the work could not be done.
	failure *failure
}

// published describes a new artifact.
type published struct {
	files   int
	commit  string
	subject string
}

// failure is why the work could not be done.
type failure struct {
	// condition is the abnormal condition that becomes True, or SourceVerified, which becomes False; none when empty.
	condition string
	reason    string
	err       error
	// final tells that only a change of the spec helps.
	final bool
	// patient tells that only a change in the repository helps, so that there is no hurry to try again.
	patient bool
	// after is the time until another attempt, where that is known.
	after time.Duration
}

func fetchFailed(reason string, err error) *failure {
	return &failure{condition: sourcev1.FetchFailedCondition, reason: reason, err: err}
}

func storageFailed(reason string, err error) *failure {
	return &failure{condition: sourcev1.StorageOperationFailedCondition, reason: reason, err: err}
}

func buildFailed(err error) *failure {
	return &failure{condition: sourcev1.BuildFailedCondition, reason: meta.BuildFailedReason, err: err, patient: true}
}

// gitFailed classes an error of the git package. One without a class comes from the machine, not from the remote.
func gitFailed(err error) *failure {
	var failed *git.Error
	if !errors.As(err, &failed) {
		return storageFailed(sourcev1.DirCreationFailedReason, err)
	}
	f := fetchFailed(string(failed.Reason), err)
	f.final = failed.Permanent()
	return f
}

// observation is what the status is computed from, beside the outcome.
type observation struct {
	// generation is that of the object that was worked on.
	generation int64
	// requestedAt is the value of the reconcile request; handled by this reconciliation, whatever came of it.
	requestedAt string
	now         time.Time
}

// abnormal are the conditions that are only there while something is wrong or going on, and the one that is only there while
// something is verified.
var abnormal = []string{
	meta.ReconcilingCondition, meta.StalledCondition, sourcev1.FetchFailedCondition, sourcev1.BuildFailedCondition,
	sourcev1.StorageOperationFailedCondition, sourcev1.ArtifactOutdatedCondition, sourcev1.IncludeUnavailableCondition,
	sourcev1.SourceVerifiedCondition,
}

// statusOf is the status after a reconciliation. It is pure: the same arguments give the same status.
func statusOf(old sourcev1.GitRepositoryStatus, seen observation, o outcome) sourcev1.GitRepositoryStatus {
	status := *old.DeepCopy()
	status.ObservedGeneration = seen.generation
	if seen.requestedAt != "" {
		status.LastHandledReconcileAt = seen.requestedAt
	}
	status.Artifact = o.artifact
	o.content.observe(&status)
	status.SourceVerificationMode = nil
	if o.proof != nil {
		status.SourceVerificationMode = &o.proof.mode
	}
	wanted := conditionsOf(o)
	for _, kind := range abnormal {
		if !has(wanted, kind) {
			apimeta.RemoveStatusCondition(&status.Conditions, kind)
		}
	}
	if !o.stored {
		apimeta.RemoveStatusCondition(&status.Conditions, sourcev1.ArtifactInStorageCondition)
	}
	for _, c := range wanted {
		c.ObservedGeneration = seen.generation
		c.LastTransitionTime = metav1.NewTime(seen.now)
		apimeta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// conditionsOf are the conditions that an outcome sets.
func conditionsOf(o outcome) []metav1.Condition {
	var out []metav1.Condition
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		out = append(out, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
	if f := o.failure; f != nil {
		message := f.err.Error()
		set(meta.ReadyCondition, metav1.ConditionFalse, f.reason, message)
		switch f.condition {
		case "":
		case sourcev1.SourceVerifiedCondition:
			set(f.condition, metav1.ConditionFalse, f.reason, message)
		default:
			set(f.condition, metav1.ConditionTrue, f.reason, message)
		}
		if f.final {
			set(meta.StalledCondition, metav1.ConditionTrue, f.reason, message)
		} else {
			set(meta.ReconcilingCondition, metav1.ConditionTrue, meta.ProgressingWithRetryReason, message)
		}
	}
	if o.proof != nil && (o.failure == nil || o.failure.condition != sourcev1.SourceVerifiedCondition) {
		set(sourcev1.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason, o.proof.message)
	}
	if o.artifact == nil || !o.stored {
		return out
	}
	message := fmt.Sprintf("stored artifact for revision '%s'", o.artifact.Revision)
	set(sourcev1.ArtifactInStorageCondition, metav1.ConditionTrue, meta.SucceededReason, message)
	if o.failure == nil {
		set(meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason, message)
	}
	return out
}

func has(conditions []metav1.Condition, kind string) bool {
	return apimeta.FindStatusCondition(conditions, kind) != nil
}
