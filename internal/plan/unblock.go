package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// OrderedSet is a StatefulSet that replaces its pods one after another, each when the one before is ready, read together with
// its pods. One that nothing keeps from going on needs no look.
type OrderedSet struct {
	ID object.ID
	// CreatedAt is when it was made.
	CreatedAt time.Time
	// Observed is true when its status speaks of its spec.
	Observed bool
	// CurrentRevision is the revision before, UpdateRevision the one that its template asks for now.
	CurrentRevision, UpdateRevision string
	Pods                            []OrderedPod
}

// OrderedPod is a pod that an OrderedSet controls.
type OrderedPod struct {
	ID object.ID
	// UID and ResourceVersion are what a deletion is bound to.
	UID, ResourceVersion string
	// Revision of the template that it was made from.
	Revision string
	// Ready and Leaving: it serves; it is on its way out.
	Ready, Leaving bool
	// Failing is true when a container can't start or ends all the time.
	Failing bool
	// UnreadySince is when it stopped being ready, or was made.
	UnreadySince time.Time
}

// Unblocking is the deletion of a pod that keeps its StatefulSet from going on.
type Unblocking struct {
	Set object.ID
	Deletion
}

// patience is how long a pod of a template that is given up may take to become ready, where nothing says that it can't. It
// would be replaced right afterwards.
const patience = 30 * time.Second

// Unblock decides which pods to delete so that StatefulSets can go on: forward to a fixed template, or back to the one
// before. Kubernetes waits there for a pod to become ready whose template is wrong and wanted no more, which is for ever
// (kubernetes/kubernetes#67250). Such a pod is not ready, and was made from a template that is neither the wanted one nor
// one that was ever healthy: the revision before counts as such, unless the StatefulSet was made after the last healthy
// time. Everything else is left to its controller.
//
// A pod is deleted once: from then on it is leaving, and what takes its place is another one.
func Unblock(sets []OrderedSet, lastHealthy, now time.Time) []Unblocking {
	var all []Unblocking
	for _, set := range sets {
		if !set.Observed {
			continue
		}
		for _, pod := range inOrder(set.Pods) {
			if blocks(set, pod, lastHealthy, now) {
				all = append(all, Unblocking{Set: set.ID, Deletion: Deletion{ID: pod.ID, uid: pod.UID, resourceVersion: pod.ResourceVersion}})
			}
		}
	}
	return all
}

func blocks(set OrderedSet, pod OrderedPod, lastHealthy, now time.Time) bool {
	switch {
	case pod.UID == "" || pod.Ready || pod.Leaving:
		return false
	case pod.Revision == "" || pod.Revision == set.UpdateRevision:
		return false
	case pod.Revision == set.CurrentRevision && !lastHealthy.IsZero() && !set.CreatedAt.After(lastHealthy):
		return false
	}
	return pod.Failing || now.Sub(pod.UnreadySince) >= patience
}

// inOrder are the pods by their ordinal, as the StatefulSet's controller goes through them.
func inOrder(pods []OrderedPod) []OrderedPod {
	ordered := slices.Clone(pods)
	slices.SortFunc(ordered, func(a, b OrderedPod) int {
		return cmp.Or(cmp.Compare(ordinal(a.ID.Name), ordinal(b.ID.Name)), strings.Compare(a.ID.Name, b.ID.Name))
	})
	return ordered
}

func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return -1 // no pod of a StatefulSet; where it stands does not matter
	}
	return n
}
