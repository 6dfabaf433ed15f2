package policy

import (
	"strconv"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Recovery is what follows a failed revision.
type Recovery struct {
	// OnFailure is Hold or Rollback.
	OnFailure v1.OnFailure
	// On is what is rolled back: BadRelease or Any.
	On v1.RollbackOn
	// Keep is the number of healthy revisions that are stored.
	Keep int
}

// builtInKeep is the number of stored revisions where a rollback is asked for and nothing else is said.
const builtInKeep = 3

// maxKeep bounds what is stored: each revision is a Secret or more.
const maxKeep = 20

var (
	onFailures = []v1.OnFailure{v1.OnFailureHold, v1.OnFailureRollback}
	rollbackOn = []v1.RollbackOn{v1.RollbackOnBadRelease, v1.RollbackOnAny}
)

// recovery reads what follows a failed revision. Without a stored revision there is nothing to go back to, so that the two
// must not contradict each other.
func (r *resolver) recovery(spec v1.RolloutPolicy, defaults Defaults) Recovery {
	rec := Recovery{
		OnFailure: pick(r, string(spec.OnFailure), v1.AnnotationOnFailure, defaults.OnFailure, onFailures),
		On:        pick(r, string(spec.RollbackOn), v1.AnnotationRollbackOn, "", rollbackOn),
	}
	if rec.OnFailure == v1.OnFailureRollback {
		rec.Keep = builtInKeep
	}
	place, value := "spec.rollout.keepRevisions", ""
	if spec.KeepRevisions != nil {
		value = strconv.Itoa(int(*spec.KeepRevisions))
	} else if value = r.annotations[v1.AnnotationKeepRevisions]; value != "" {
		place = v1.AnnotationKeepRevisions
	} else {
		return rec
	}
	n, err := strconv.Atoi(value)
	switch {
	case err != nil || n < 0 || n > maxKeep:
		r.complain(place, value, "a count from 0 to "+strconv.Itoa(maxKeep))
	case n == 0 && rec.OnFailure == v1.OnFailureRollback:
		r.complain(place, value, "at least 1 with onFailure: Rollback, which goes back to a stored revision")
	default:
		rec.Keep = n
	}
	return rec
}
