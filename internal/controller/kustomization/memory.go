package kustomization

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// memory is what one process remembers of a Kustomization between passes. All of it can be lost: it only spares work.
type memory struct {
	uid types.UID
	// target is the cluster and account that the rest speaks of.
	target string
	// buildKey and built are the inputs and the result of the last build.
	buildKey string
	built    *build.Result
	// builtAt is when that was.
	builtAt time.Time
	// appliedKey is the build that was applied in full, appliedAt when, and nextApply when that has to be done again.
	appliedKey           string
	appliedAt, nextApply time.Time
	// settled is what needs no dry-run, for the spec of settledGeneration, since settledAt.
	settled           execute.Settled
	settledGeneration int64
	settledAt         time.Time
	// refused are the deletions that the API server did not accept.
	refused map[object.ID]plan.Refusal
	// expressions are those of the spec, compiled.
	expressions *expressions
	// unreleased are the owner labels that could not be removed, and why.
	unreleased map[object.ID]string
	shared     shared
	// jobs are those of the build, as they were applied.
	jobs map[object.ID]appliedJob
	// timingAt is when the objects that only the state of the rollout holds were looked at.
	timingAt time.Time
	// healthAt is when the health of the build was last looked at.
	healthAt time.Time
	// filled are the lists of which it was said that they are left to others.
	filled map[execute.Filled]bool
	// leaving is when its deletion was first worked on.
	leaving time.Time
	// leavingReason is what its condition Ready said then.
	leavingReason string
	// dependentsAt is when others that depend on it were last seen to hold its deletion, and toldDependents whether it was said
	// that they no longer do.
	dependentsAt   time.Time
	toldDependents bool
	// stored is the stored revision that was read last.
	stored *build.Result
	// tooLarge is the digest of a build that can't be stored, and tooLargeText why.
	tooLarge, tooLargeText string
	// fetchFailures counts failed downloads in a row.
	fetchFailures int
}

// memories holds the memory of every Kustomization. The queue never works on one object twice at a time, so that only
// the map itself needs a lock.
type memories struct {
	mu sync.Mutex
	m  map[types.NamespacedName]*memory
}

// of returns the memory of an object, a new one when the name was taken over by another object.
func (ms *memories) of(key types.NamespacedName, uid types.UID) *memory {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.m == nil {
		ms.m = map[types.NamespacedName]*memory{}
	}
	mem := ms.m[key]
	if mem == nil || mem.uid != uid {
		mem = &memory{uid: uid, refused: map[object.ID]plan.Refusal{}, unreleased: map[object.ID]string{}}
		ms.m[key] = mem
	}
	return mem
}

func (ms *memories) forget(key types.NamespacedName) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.m, key)
}
