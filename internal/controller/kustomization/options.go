package kustomization

import (
	"time"

	"github.com/fluxcd/pkg/cache"
	"github.com/fluxcd/pkg/runtime/client"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// Options are the settings of the Kustomization controller, from the flags of `holdfast run`.
type Options struct {
	// Concurrent is the number of Kustomizations that are worked on at the same time.
	Concurrent int
	// ConcurrentSSA is the number of objects of one Kustomization that are applied at the same time.
	ConcurrentSSA int
	// CustomApplyStageKinds are applied, and awaited, before the last stage.
	CustomApplyStageKinds []schema.GroupKind
	// OverrideManagers are field managers whose fields are taken over, and taken away where the manifest lacks them.
	OverrideManagers []string
	// MigrateAPIVersion rewrites the API version of all managed fields before an object is applied (gate MigrateAPIVersion).
	MigrateAPIVersion bool
	// RequeueDependency is the time between two looks at a dependency or source that is not ready.
	RequeueDependency time.Duration
	// MinRetryDelay and MaxRetryDelay bound the exponential back-off for errors outside the pipeline.
	MinRetryDelay, MaxRetryDelay time.Duration
	// NoCrossNamespaceRefs forbids sources in another namespace.
	NoCrossNamespaceRefs bool
	// NoRemoteBases forbids kustomize bases and resources outside the artifact.
	NoRemoteBases bool
	// RemoteBuilds runs builds that fetch something, so that a host that does not answer stops no others. Without it they run
	// in this process.
	RemoteBuilds *build.Isolation
	// Rivals are the controllers of Flux whose work this process does: no build may start them.
	Rivals []string
	// RivalsIn is the namespace in which they are rivals; empty for every one.
	RivalsIn string
	// OwnNamespace is the namespace that the controller runs in; it is never pruned.
	OwnNamespace string
	// IntervalJitterPercentage spreads the interval of successful reconciliations, 0 to 99.
	IntervalJitterPercentage int
	// SourceHost replaces the host of artifact URLs, when set (SOURCE_CONTROLLER_LOCALHOST).
	SourceHost string
	// AdditiveReadyExpr asks of a dependency with a readyExpr to be ready as well (gate AdditiveCELDependencyCheck).
	AdditiveReadyExpr bool
	// NoRevisionStore stores no revisions, so that none can be brought back.
	NoRevisionStore bool
	// UnblockStatefulSets deletes the pods of a template that was given up where a StatefulSet would wait for them for ever.
	UnblockStatefulSets bool
	// MaxObjectSize is the largest object that the API server stores, in bytes; 1.5 MiB when zero, as etcd has it by default.
	MaxObjectSize int
	// WatcherHost does the same for the artifacts of Flux's source-watcher (SOURCE_WATCHER_LOCALHOST).
	WatcherHost string
	// HTTPRetry is the number of times that a download is tried again before it is reported as failed.
	HTTPRetry int
	// ExternalArtifacts allows sources of the kind ExternalArtifact (gate ExternalArtifact).
	ExternalArtifacts bool
	// NoFailFast waits for all objects when one has failed for good (gate DisableFailFastBehavior).
	NoFailFast bool
	// TellCanceledChecks reports a health check that was given up for a newer build as such (gate CancelHealthCheckOnNewRevision).
	TellCanceledChecks bool
	// GroupChangeLog groups the objects in the log line of an apply by what was done to them (gate GroupChangeLog).
	GroupChangeLog bool
	// LenientSubstitution makes a variable with neither value nor default empty (gate StrictPostBuildSubstitutions off).
	LenientSubstitution bool
	// SubstituteWholeText treats dollars in the text of objects as Flux does, expressions or not.
	SubstituteWholeText bool
	// SOPSAgeSecret is a Secret of OwnNamespace whose age keys decrypt where spec.decryption names none.
	SOPSAgeSecret string
	// Shard selects the Kustomizations that this process looks after. Nil selects all.
	Shard labels.Selector
	// WatchConfigs selects the ConfigMaps and Secrets whose change queues the Kustomizations that refer to them. Nil watches none.
	WatchConfigs labels.Selector
	// Defaults of the policy hold where a Kustomization says nothing.
	Defaults policy.Defaults
	// DefaultServiceAccount works for Kustomizations that name no account.
	DefaultServiceAccount string
	// KubeConfig says what of the kubeconfigs of remote clusters may be used.
	KubeConfig client.KubeConfigOptions
	// Tokens keeps the tokens of identities; nil keeps none.
	Tokens *cache.TokenCache
	// ObjectLevelIdentity allows Kustomizations to name ServiceAccounts for credentials (gate ObjectLevelWorkloadIdentity).
	ObjectLevelIdentity bool
	// DefaultKubeConfigAccount and DefaultDecryptionAccount are used where none is named.
	DefaultKubeConfigAccount, DefaultDecryptionAccount string
	// SOPSVaultConfigMap is a ConfigMap of OwnNamespace with the Vault servers that accounts may log in to.
	SOPSVaultConfigMap string
	// Recorder takes events.
	Recorder record.EventRecorder
}
