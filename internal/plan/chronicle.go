package plan

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// The bounds of the history in the status.
const (
	maxHistory = 10
	maxNote    = 512
)

// Chronicle writes down what a pass made of the rollout: one that began, or how one ended. The newest comes first.
func Chronicle(r v1.RolloutStatus, c Course, now time.Time) v1.RolloutStatus {
	if r.Wanted == nil || r.Began == nil {
		return r
	}
	r = *r.DeepCopy()
	if len(r.History) == 0 || r.History[0].Digest != r.Wanted.Digest || !r.History[0].Started.Equal(r.Began) {
		r.History = append([]v1.RolloutRecord{begun(r, c)}, overtaken(r.History, now)...)
		r.History = r.History[:min(len(r.History), maxHistory)]
	}
	current := &r.History[0]
	current.Revision = r.Wanted.Revision
	result, note := resultOf(r)
	if result != current.Result && result != v1.ResultRunning {
		current.Result, current.Ended = result, stamp(now)
	}
	if note != "" {
		current.Note = shortened(note)
	}
	return r
}

// begun is the record of a rollout that begins.
func begun(r v1.RolloutStatus, c Course) v1.RolloutRecord {
	record := v1.RolloutRecord{Number: 1, Revision: r.Wanted.Revision, Digest: r.Wanted.Digest,
		Started: *r.Began, Result: v1.ResultRunning, Trigger: v1.TriggerSource}
	if len(r.History) > 0 {
		record.Number = r.History[0].Number + 1
	}
	switch {
	case c.Back && r.Pin != nil:
		record.Trigger, record.Note = v1.TriggerPin, shortened(words(r.Pin))
	case c.Back:
		record.Trigger = v1.TriggerRollback
	case c.Again:
		record.Trigger = v1.TriggerRetry
	}
	return record
}

// words are what a person said about a pin.
func words(pin *v1.Pin) string {
	switch {
	case pin.By == "":
		return pin.Reason
	case pin.Reason == "":
		return pin.By
	}
	return pin.Reason + " (" + pin.By + ")"
}

// overtaken ends the rollout that another one came before.
func overtaken(history []v1.RolloutRecord, now time.Time) []v1.RolloutRecord {
	if len(history) > 0 && history[0].Result == v1.ResultRunning {
		history = slices.Clone(history)
		history[0].Result, history[0].Ended = v1.ResultSuperseded, stamp(now)
	}
	return history
}

// resultOf reads the result of the current rollout, and what was wrong with it. One that was healthy and fails later was
// healthy; it says so in the phase.
func resultOf(r v1.RolloutStatus) (v1.RolloutResult, string) {
	switch {
	case r.Skipped != nil && r.Skipped.Reason == v1.SkippedFailed && r.Skipped.Digest == r.Wanted.Digest:
		return v1.ResultRolledBack, r.Skipped.Message
	case r.Verified:
		return v1.ResultHealthy, ""
	case r.Phase == v1.PhaseHeld && len(r.Culprits) > 0:
		return v1.ResultFailed, r.Culprits[0].ID + ": " + r.Culprits[0].Message
	case r.Phase == v1.PhaseHeld:
		return v1.ResultFailed, ""
	}
	return v1.ResultRunning, ""
}

func shortened(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return strings.ToValidUTF8(s[:maxNote], "") + "..."
}

// Took is how long a rollout took until its result was known, or so far.
func Took(record v1.RolloutRecord, now time.Time) time.Duration {
	end := metav1.NewTime(now)
	if record.Ended != nil {
		end = *record.Ended
	}
	return max(0, end.Sub(record.Started.Time))
}
