package gitrepository

import (
	"time"

	"github.com/fluxcd/pkg/cache"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
)

// Options are the settings of the GitRepository controller and of the artifact storage, from the flags of `holdfast run`.
type Options struct {
	// Concurrent is the number of sources that are worked on at the same time.
	Concurrent int
	// StoragePath is the directory that artifacts are kept in.
	StoragePath string
	// StorageAddr is the address that the artifact server listens on.
	StorageAddr string
	// StorageAdvAddr is the host (and port) that artifact URLs carry; the listening address when empty.
	StorageAdvAddr string
	// ArtifactRetentionTTL and ArtifactRetentionRecords bound how long replaced artifacts are kept.
	ArtifactRetentionTTL     time.Duration
	ArtifactRetentionRecords int
	// RequeueDependency is the time between two looks at something that is not ready.
	RequeueDependency time.Duration
	// MinRetryDelay and MaxRetryDelay bound the exponential back-off after failures.
	MinRetryDelay, MaxRetryDelay time.Duration
	// IntervalJitterPercentage spreads the interval, 0 to 99.
	IntervalJitterPercentage int
	// ObjectLevelIdentity allows sources to name ServiceAccounts for credentials (gate ObjectLevelWorkloadIdentity), and
	// DefaultServiceAccount is used where none is named.
	ObjectLevelIdentity   bool
	DefaultServiceAccount string
	// Tokens keeps tokens; nil keeps none.
	Tokens *cache.TokenCache
	// Shard selects the sources that this process looks after. Nil selects all.
	Shard labels.Selector
	// Recorder takes events.
	Recorder record.EventRecorder
}
