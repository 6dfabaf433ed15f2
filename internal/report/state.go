package report

import (
	"fmt"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// State is the one word for how a Kustomization or a source is.
type State string

// The states, in the order in which they need a person.
const (
	// NeedsConfirmation: a deletion waits for a person.
	NeedsConfirmation State = "NeedsConfirmation"
	// RolledBack: the wanted revision failed, and the last healthy one runs again.
	RolledBack State = "RolledBack"
	// Held: the wanted revision failed; everything is kept, and it becomes Healthy if it recovers.
	Held State = "Held"
	// Refused: the build, the spec or the API server said no; nothing was pruned.
	Refused State = "Refused"
	// Waiting: for a source, a dependency, or for a controller to look at it.
	Waiting State = "Waiting"
	// Deleting: it is being deleted.
	Deleting State = "Deleting"
	// Applying, Verifying and Pruning: on the way.
	Applying  State = "Applying"
	Verifying State = "Verifying"
	Pruning   State = "Pruning"
	// Pinned: a person chose the revision that runs.
	Pinned State = "Pinned"
	// Paused: a person stopped it.
	Paused State = "Paused"
	// Healthy: it runs what is wanted; it may still keep objects.
	Healthy State = "Healthy"
)

// urgency is the order of the states in a list.
var urgency = []State{NeedsConfirmation, RolledBack, Held, Refused, Waiting, Deleting, Applying, Verifying, Pruning, Pinned, Paused, Healthy}

// notSeen is what is said of an object that no controller has looked at.
const notSeen = "no controller has looked at it yet"

// StateOf returns the one word for how a Kustomization is, for metrics.
func StateOf(ks *v1.Kustomization) State { return stateOf(ks) }

// stateOf returns the state of a Kustomization, whichever controller wrote its status.
func stateOf(ks *v1.Kustomization) State {
	ready := readyOf(ks)
	switch {
	case ks.DeletionTimestamp != nil:
		return Deleting
	case policy.Stops(ks, time.Now()):
		return Paused
	case isStalled(ks):
		return stalledState(ks)
	case ready == nil:
		return Waiting
	case ready.Status == metav1.ConditionFalse:
		return failedState(ks, ready.Reason)
	case ready.Status == metav1.ConditionTrue && ks.Status.ObservedGeneration != ks.Generation:
		return Applying // the spec changed since
	}
	return workingState(ks, ready.Status == metav1.ConditionTrue)
}

// workingState is the state of a Kustomization that nothing has failed.
func workingState(ks *v1.Kustomization, ready bool) State {
	if ready && hasArrived(ks) && apimeta.IsStatusConditionTrue(ks.Status.Conditions, v1.PruneHeldCondition) {
		return NeedsConfirmation
	}
	if ready && hasArrived(ks) && ks.Status.Rollout.Pin != nil {
		return Pinned
	}
	if phase := phaseOf(ks); phase != "" && phase != v1.PhaseRefused && phase != v1.PhaseWaiting {
		// Without a verdict asked for, Ready is True while the health is watched in the background.
		return State(phase)
	}
	if ready {
		return Healthy
	}
	return Applying
}

// hasArrived tells whether nothing is on its way; a revision that fails is told before a deletion that waits.
func hasArrived(ks *v1.Kustomization) bool {
	phase := phaseOf(ks)
	return phase == v1.PhaseHealthy || phase == v1.PhasePruning
}

func isStalled(ks *v1.Kustomization) bool {
	return apimeta.IsStatusConditionTrue(ks.Status.Conditions, fluxmeta.StalledCondition)
}

func stalledState(ks *v1.Kustomization) State {
	c := apimeta.FindStatusCondition(ks.Status.Conditions, fluxmeta.StalledCondition)
	switch c.Reason {
	case string(v1.RetainedAwaitingConfirmation):
		return NeedsConfirmation
	case v1.ReasonRolledBack:
		return RolledBack
	}
	return Refused
}

// failedState tells the failures apart. The phase is not enough: a fault of the API server leaves it as it was.
func failedState(ks *v1.Kustomization, reason string) State {
	switch {
	case reason == fluxmeta.HealthCheckFailedReason:
		return Held
	case reason == fluxmeta.DependencyNotReadyReason:
		return Waiting
	case reason == fluxmeta.ArtifactFailedReason && phaseOf(ks) != v1.PhaseRefused:
		return Waiting
	}
	return Refused
}

func phaseOf(ks *v1.Kustomization) v1.Phase {
	if ks.Status.Rollout == nil {
		return ""
	}
	return ks.Status.Rollout.Phase
}

func readyOf(ks *v1.Kustomization) *metav1.Condition {
	return apimeta.FindStatusCondition(ks.Status.Conditions, fluxmeta.ReadyCondition)
}

// whyOf says in one line what keeps a Kustomization from being healthy; empty when nothing does.
func whyOf(ks *v1.Kustomization, state State) string {
	if why, ok := whyByState(ks, state); ok {
		return why
	}
	ready := readyOf(ks)
	switch {
	case state == Deleting && (ready == nil || ready.Status == metav1.ConditionTrue):
		return ""
	case ready == nil:
		return notSeen
	case state == Applying && ready.Status == metav1.ConditionTrue:
		return "the spec changed, and " + notSeen
	}
	return firstLine(ready.Message)
}

// whyByState is the answer of the states that say more than the condition Ready does.
func whyByState(ks *v1.Kustomization, state State) (why string, ok bool) {
	switch state {
	case Healthy:
		return "", true
	case Pinned:
		if c := apimeta.FindStatusCondition(ks.Status.Conditions, v1.PinnedCondition); c != nil {
			return c.Message, true
		}
	case Paused:
		if pause := policy.PauseOf(ks, time.Now()); pause != nil && !ks.Spec.Suspend {
			return pause.String(), true
		}
		return "spec.suspend is true", true
	case NeedsConfirmation:
		if !isStalled(ks) && ks.Status.Rollout.PendingPrune != nil {
			return ks.Status.Rollout.PendingPrune.Message, true
		}
	case Verifying, Held:
		why = culpritLine(ks)
		return why, why != ""
	default:
		// The condition Ready says it.
	}
	return "", false
}

// culpritLine names the first object that is not healthy, and counts the others.
func culpritLine(ks *v1.Kustomization) string {
	if ks.Status.Rollout == nil || len(ks.Status.Rollout.Culprits) == 0 {
		return ""
	}
	culprits := ks.Status.Rollout.Culprits
	line := spaced(culprits[0].ID)
	if m := firstLine(culprits[0].Message); m != "" {
		line += ": " + m
	}
	if more := len(culprits) - 1; more > 0 {
		line += fmt.Sprintf(", and %d more", more)
	}
	return line
}

// spaced writes Kind/namespace/name as "Kind namespace/name".
func spaced(id string) string { return strings.Replace(id, "/", " ", 1) }

// nameOf is the name of an inventory entry for people; one that can't be read is shown as it is.
func nameOf(inventoryID string) string {
	id, err := object.ParseInventory(inventoryID)
	if err != nil {
		return inventoryID
	}
	return spaced(id.String())
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
