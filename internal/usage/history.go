package usage

import (
	"github.com/holdfast-gitops/holdfast/internal/object"
)

const whyHistory = "revision in the history"

// History returns, for every target, the revisions that refer to it and that a workload can be rolled back to: the
// ReplicaSets of Deployments, also at zero, and the ControllerRevisions of StatefulSets and DaemonSets. How many there are is
// Kubernetes' own business (revisionHistoryLimit). An error means the same as for Find.
func History(targets object.Set, live Live) (map[object.ID][]User, error) {
	past := map[object.ID][]User{}
	var problems []error
	for _, u := range live {
		if gk := u.GroupVersionKind().GroupKind(); gk != replicaSet && gk != controllerRevision {
			continue
		}
		user := User{ID: object.IDOf(u), Controller: controllerOf(u), Why: whyHistory}
		err := collect(u, func(target object.ID) {
			if targets.Has(target) {
				past[target] = append(past[target], user)
			}
		})
		if err != nil {
			problems = append(problems, &MalformedError{ID: user.ID, Err: err})
		}
	}
	for target, list := range past {
		past[target] = once(list)
	}
	return past, joined(problems)
}
