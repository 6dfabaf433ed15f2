package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/cache"
	"github.com/fluxcd/pkg/runtime/acl"
	"github.com/fluxcd/pkg/runtime/client"
	"github.com/fluxcd/pkg/runtime/controller"
	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-gitops/holdfast/internal/controller/gitrepository"
	"github.com/holdfast-gitops/holdfast/internal/controller/kustomization"
	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// Environment variables, as Flux's controllers have them.
const (
	// NamespaceVariable holds the namespace of the process.
	NamespaceVariable = controller.EnvRuntimeNamespace
	// SourceHostVariable holds a host that replaces that of artifact URLs.
	SourceHostVariable = "SOURCE_CONTROLLER_LOCALHOST"
	// WatcherHostVariable does the same for the artifacts of Flux's source-watcher.
	WatcherHostVariable = "SOURCE_WATCHER_LOCALHOST"
)

// defaultNamespace is used where RUNTIME_NAMESPACE is not set, which is so outside a cluster only.
const defaultNamespace = "flux-system"

// Flags are the flags of `holdfast run`. Where Flux has a shared set of flags for something, that set is used.
type Flags struct {
	Log logger.Options

	controllers                          []string
	takeover                             bool
	metricsAddr, healthAddr, eventsAddr  string
	concurrent, concurrentSSA, httpRetry int
	customApplyStageKinds                string
	requeueDependency                    time.Duration
	noRevisionStore                      bool
	substituteWholeText                  bool
	sopsAgeSecret                        string
	noRemoteBases, unblockStatefulSets   bool
	overrideManagers                     []string
	defaultServiceAccount                string
	defaultDecryptionAccount             string
	defaultKubeConfigAccount             string
	defaultSourceAccount                 string
	sopsVaultConfigMap                   string
	storage                              storageFlags
	policy                               policyFlags

	acl            acl.Options
	client         client.Options
	jitter         jitter.IntervalOptions
	leaderElection leaderelection.Options
	rateLimiter    controller.RateLimiterOptions
	watch          controller.WatchOptions
	kubeConfig     client.KubeConfigOptions
	tokens         cache.TokenFlags

	gates map[string]bool
	set   *pflag.FlagSet
}

// storageFlags are the flags of Flux's source-controller for its artifact storage.
type storageFlags struct {
	path, addr, advAddr string
	retentionTTL        time.Duration
	retentionRecords    int
}

// Bind adds the flags to a set.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	f.set = fs
	f.bindProcess(fs)
	f.bindReconcile(fs)
	f.storage.bind(fs)
	f.policy.bind(fs)
	f.bindGates(fs)
	f.Log.BindFlags(fs)
	f.acl.BindFlags(fs)
	f.client.BindFlags(fs)
	f.jitter.BindFlags(fs)
	f.leaderElection.BindFlags(fs)
	f.rateLimiter.BindFlags(fs)
	f.watch.BindFlags(fs)
	f.kubeConfig.BindFlags(fs)
	f.tokens.BindFlags(fs, defaultTokens)
	f.bindIdentities(fs)
}

func (f *Flags) bindProcess(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.controllers, "controllers", []string{ControllerSource, ControllerKustomization},
		"The controllers to run. Use 'kustomization' alone beside Flux's source-controller.")
	fs.BoolVar(&f.takeover, "takeover", false,
		"Start even if a controller of Flux with the same work is alive: if it holds its leader election lease and renews it.")
	fs.StringVar(&f.metricsAddr, "metrics-addr", ":8080",
		"The address of the metrics and pprof endpoints; '0' turns them off.")
	fs.StringVar(&f.healthAddr, "health-addr", ":9440",
		"The address of the health endpoints /healthz and /readyz; '0' turns them off.")
	fs.StringVar(&f.eventsAddr, "events-addr", "",
		"The address of Flux's notification-controller, which then gets every event.")
}

func (f *Flags) bindReconcile(fs *pflag.FlagSet) {
	fs.IntVar(&f.concurrent, "concurrent", 4,
		"The number of objects of a kind that are reconciled at the same time.")
	fs.IntVar(&f.concurrentSSA, "concurrent-ssa", 4,
		"The number of server-side apply requests of one Kustomization at the same time.")
	fs.IntVar(&f.httpRetry, "http-retry", 9,
		"The number of times that a download is tried again, after a growing delay and without holding up others, before it "+
			"is reported as failed.")
	fs.StringVar(&f.customApplyStageKinds, "custom-apply-stage-kinds", "",
		"Kinds to apply after the CRDs and before everything else that is namespaced, as 'group/Kind,group/Kind'.")
	fs.DurationVar(&f.requeueDependency, "requeue-dependency", 30*time.Second,
		"The time between two looks at a dependency that is not ready.")
	fs.BoolVar(&f.noRevisionStore, "no-revision-store", false,
		"Store no healthy revisions in Secrets, so that none can be brought back.")
	fs.BoolVar(&f.noRemoteBases, "no-remote-bases", false,
		"Refuse kustomize resources and bases that are not in the artifact.")
	fs.StringVar(&f.sopsAgeSecret, "sops-age-secret", "",
		"The name of a Secret in the controller's namespace with age keys (*.agekey), for Kustomizations whose spec.decryption names no Secret.")
	fs.BoolVar(&f.substituteWholeText, "substitute-whole-text", false,
		"Under spec.postBuild, treat every '$$' and '${' as Flux does: '$$' becomes '$', and a '${' that begins no valid "+
			"expression fails the build. Otherwise text that is no expression of a valid variable name stays as it is.")
	fs.StringArrayVar(&f.overrideManagers, "override-manager", nil,
		"A field manager whose changes to managed objects are undone, also where the manifest does not set the field; repeatable.")
	fs.BoolVar(&f.unblockStatefulSets, "unblock-statefulsets", true,
		"Delete a pod that is not ready, was made from a template that is no longer wanted and was never healthy, and keeps an "+
			"ordered StatefulSet from going on.")
	fs.StringVar(&f.defaultServiceAccount, "default-service-account", "",
		"The ServiceAccount, of the namespace of each Kustomization, that works for those that name none.")
}

// defaultTokens is the number of tokens that are kept.
const defaultTokens = 100

func (f *Flags) bindIdentities(fs *pflag.FlagSet) {
	fs.StringVar(&f.defaultDecryptionAccount, identity.DecryptionFlag, "",
		"The ServiceAccount, of the namespace of each Kustomization, whose identity opens keys for those that name none in "+
			"spec.decryption; needs the feature gate "+identity.Gate+".")
	fs.StringVar(&f.defaultKubeConfigAccount, identity.KubeConfigFlag, "",
		"The ServiceAccount, of the namespace of each Kustomization, whose identity gets access to a cluster where the ConfigMap of "+
			"spec.kubeConfig names none; needs the feature gate "+identity.Gate+".")
	fs.StringVar(&f.defaultSourceAccount, identity.SourceFlag, "",
		"The ServiceAccount, of the namespace of each GitRepository, whose identity gets access to a Git server of a cloud for those that "+
			"name none; needs the feature gate "+identity.Gate+". Flux's source-controller calls it --default-service-account.")
	fs.StringVar(&f.sopsVaultConfigMap, "sops-vault-configmap", "",
		"The name of a ConfigMap in the controller's namespace with the OpenBao or Vault servers that ServiceAccounts log in to for "+
			"decryption; no other server is then asked without a token in the decryption Secret.")
}

func (s *storageFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&s.path, "storage-path", "",
		"The directory for artifacts; created if need be. When empty: holdfast/artifacts in the user's cache directory, "+
			"or in the temporary directory where there is none.")
	fs.StringVar(&s.addr, "storage-addr", ":9090",
		"The address of the artifact server.")
	fs.StringVar(&s.advAddr, "storage-adv-addr", "",
		"The host that artifact URLs carry; the listening address when empty.")
	fs.DurationVar(&s.retentionTTL, "artifact-retention-ttl", 60*time.Second,
		"The time that a replaced artifact is kept.")
	fs.IntVar(&s.retentionRecords, "artifact-retention-records", 2,
		"The number of artifacts kept per source.")
}

// Resolve checks the flags and turns them into settings; getenv reads the environment.
func (f *Flags) Resolve(getenv func(string) string) (Options, error) {
	if err := f.refuse(); err != nil {
		return Options{}, err
	}
	namespace := getenv(NamespaceVariable)
	if namespace == "" {
		if !f.watch.AllNamespaces {
			return Options{}, usageErrorf("--watch-all-namespaces=false needs the environment variable %s: set it to the namespace to watch", NamespaceVariable)
		}
		namespace = defaultNamespace
	}
	kinds, err := parseKinds(f.customApplyStageKinds)
	if err != nil {
		return Options{}, err
	}
	defaults, err := f.policy.defaults()
	if err != nil {
		return Options{}, err
	}
	options := Options{
		Controllers:        f.controllers,
		Takeover:           f.takeover,
		Namespace:          namespace,
		WatchAllNamespaces: f.watch.AllNamespaces,
		MetricsAddr:        f.metricsAddr,
		HealthAddr:         f.healthAddr,
		EventsAddr:         f.eventsAddr,
		LeaderElection:     f.leaderElection,
		KubeAPIQPS:         f.client.QPS,
		KubeAPIBurst:       f.client.Burst,
		Tokens:             f.tokens,
		Kustomization:      f.kustomization(kinds, namespace),
		Source:             f.source(),
	}
	options.Kustomization.Defaults = defaults
	options.Kustomization.SourceHost, options.Kustomization.WatcherHost = getenv(SourceHostVariable), getenv(WatcherHostVariable)
	if options.Kustomization.WatchConfigs, err = f.watchConfigs(); err != nil {
		return Options{}, err
	}
	return options, f.shard(&options)
}

func (f *Flags) kustomization(kinds []schema.GroupKind, namespace string) kustomization.Options {
	return kustomization.Options{
		Concurrent:               f.concurrent,
		ConcurrentSSA:            f.concurrentSSA,
		CustomApplyStageKinds:    kinds,
		RequeueDependency:        f.requeueDependency,
		MinRetryDelay:            f.rateLimiter.MinRetryDelay,
		MaxRetryDelay:            f.rateLimiter.MaxRetryDelay,
		NoCrossNamespaceRefs:     f.acl.NoCrossNamespaceRefs,
		NoRemoteBases:            f.noRemoteBases,
		NoRevisionStore:          f.noRevisionStore,
		OwnNamespace:             namespace,
		IntervalJitterPercentage: int(f.jitter.Percentage),
		NoFailFast:               f.gate(gateNoFailFast),
		TellCanceledChecks:       f.gate(gateTellCanceled),
		AdditiveReadyExpr:        f.gate(gateAdditiveReadyExpr),
		GroupChangeLog:           f.gate(gateGroupChangeLog),
		LenientSubstitution:      !f.gate(gateStrict),
		SubstituteWholeText:      f.substituteWholeText,
		SOPSAgeSecret:            f.sopsAgeSecret,
		OverrideManagers:         f.overrideManagers,
		MigrateAPIVersion:        f.gate(gateMigrateAPIVersion),
		UnblockStatefulSets:      f.unblockStatefulSets,
		HTTPRetry:                f.httpRetry,
		ExternalArtifacts:        f.gate(gateExternalArtifact),
		DefaultServiceAccount:    f.defaultServiceAccount,
		KubeConfig:               f.kubeConfig,
		ObjectLevelIdentity:      f.gate(identity.Gate),
		DefaultKubeConfigAccount: f.defaultKubeConfigAccount,
		DefaultDecryptionAccount: f.defaultDecryptionAccount,
		SOPSVaultConfigMap:       f.sopsVaultConfigMap,
	}
}

// watchConfigs selects the ConfigMaps and Secrets to watch, nil for none. As in Flux an empty selector selects all.
func (f *Flags) watchConfigs() (labels.Selector, error) {
	if f.gate(gateNoConfigWatchers) {
		return nil, nil
	}
	selector, err := labels.Parse(f.watch.ConfigsLabelSelector)
	if err != nil {
		return nil, usageErrorf("--watch-configs-label-selector %q is no label selector: %w", f.watch.ConfigsLabelSelector, err)
	}
	return selector, nil
}

// shard limits both controllers to what the selector selects.
func (f *Flags) shard(o *Options) error {
	if f.watch.LabelSelector == "" {
		return nil
	}
	selector, err := controller.GetWatchSelector(f.watch)
	if err != nil {
		return usageErrorf("--watch-label-selector %q is no label selector: %w", f.watch.LabelSelector, err)
	}
	o.ShardSelector = f.watch.LabelSelector
	o.Kustomization.Shard, o.Source.Shard = selector, selector
	return nil
}

func (f *Flags) source() gitrepository.Options {
	path := f.storage.path
	if path == "" {
		path = defaultStoragePath()
	}
	return gitrepository.Options{
		Concurrent:               f.concurrent,
		StoragePath:              path,
		StorageAddr:              f.storage.addr,
		StorageAdvAddr:           f.storage.advAddr,
		ArtifactRetentionTTL:     f.storage.retentionTTL,
		ArtifactRetentionRecords: f.storage.retentionRecords,
		RequeueDependency:        f.requeueDependency,
		MinRetryDelay:            f.rateLimiter.MinRetryDelay,
		MaxRetryDelay:            f.rateLimiter.MaxRetryDelay,
		IntervalJitterPercentage: int(f.jitter.Percentage),
		ObjectLevelIdentity:      f.gate(identity.Gate),
		DefaultServiceAccount:    f.defaultSourceAccount,
	}
}

// defaultStoragePath is a place that a person's account can write to. The Deployment sets --storage-path.
func defaultStoragePath() string {
	base, err := os.UserCacheDir()
	if err != nil {
		// No home directory: a container or a service account.
		base = os.TempDir()
	}
	return filepath.Join(base, "holdfast", "artifacts")
}

// parseKinds reads a list of group/Kind. The core group is the empty one, as in "/Secret", or no group at all.
func parseKinds(list string) ([]schema.GroupKind, error) {
	var kinds []schema.GroupKind
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		group, kind, found := strings.Cut(entry, "/")
		if !found {
			group, kind = "", entry
		}
		if kind == "" || strings.Contains(kind, "/") || group != "" && len(validation.IsDNS1123Subdomain(group)) > 0 {
			return nil, usageErrorf("--custom-apply-stage-kinds has %q: write group/Kind, such as rbac.authorization.k8s.io/Role", entry)
		}
		if parsed := (schema.GroupKind{Group: group, Kind: kind}); !slices.Contains(kinds, parsed) {
			kinds = append(kinds, parsed)
		}
	}
	return kinds, nil
}
