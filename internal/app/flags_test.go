package app

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Every flag of Flux's kustomize-controller with its default, and those of source-controller's storage: P187, P188, P189, P190,
// P191, P192, P193, P194, P195, P196, P197, P198, P199, P200, P201, P202, P203, P204, P205, P206, P207, P208, P209, P210, P211, P212,
// P213, P214, P215, P216, P217, P218, P219, P220, P221, P222.
func TestEveryFlagOfFluxHasItsDefault(t *testing.T) {
	want := map[string]string{
		"concurrent":                         "4",
		"concurrent-ssa":                     "4",
		"custom-apply-stage-kinds":           "",
		"default-service-account":            "",
		"default-decryption-service-account": "",
		"default-kubeconfig-service-account": "",
		"enable-leader-election":             "false",
		"leader-election-lease-duration":     "35s",
		"leader-election-renew-deadline":     "30s",
		"leader-election-retry-period":       "5s",
		"leader-election-release-on-cancel":  "true",
		"events-addr":                        "",
		"feature-gates":                      "",
		"health-addr":                        ":9440",
		"metrics-addr":                       ":8080",
		"http-retry":                         "9",
		"insecure-kubeconfig-exec":           "false",
		"insecure-kubeconfig-tls":            "false",
		"interval-jitter-percentage":         "5",
		"kube-api-qps":                       "50",
		"kube-api-burst":                     "300",
		"log-encoding":                       "json",
		"log-level":                          "info",
		"min-retry-delay":                    "750ms",
		"max-retry-delay":                    "15m0s",
		"no-cross-namespace-refs":            "false",
		"no-remote-bases":                    "false",
		"unblock-statefulsets":               "true",
		"override-manager":                   "[]",
		"requeue-dependency":                 "30s",
		"sops-age-secret":                    "",
		"sops-vault-configmap":               "",
		"token-cache-max-size":               "100",
		"token-cache-max-duration":           "1h0m0s",
		"watch-all-namespaces":               "true",
		"watch-label-selector":               "",
		"watch-configs-label-selector":       "reconcile.fluxcd.io/watch=Enabled",

		"takeover": "false",

		"artifact-retention-ttl":     "1m0s",
		"artifact-retention-records": "2",
		"storage-addr":               ":9090",
		"storage-adv-addr":           "",
		"storage-path":               "",

		"default-prune-order": "AfterHealthy",
		"default-retain":      "InUse",
		"default-max-prune":   "",
		"default-soak":        "0s",
		"default-on-failure":  "Hold",
		"no-revision-store":   "false",

		"controllers":                    "[source,kustomization]",
		"default-source-service-account": "",
		"substitute-whole-text":          "false",
	}
	var f Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.Bind(set)
	set.VisitAll(func(flag *pflag.Flag) {
		value, ok := want[flag.Name]
		if !ok {
			t.Errorf("--%s is not in the table of this test", flag.Name)
		}
		if flag.DefValue != value {
			t.Errorf("--%s is %q by default, want %q", flag.Name, flag.DefValue, value)
		}
		if flag.Usage == "" {
			t.Errorf("--%s has no help", flag.Name)
		}
		delete(want, flag.Name)
	})
	for name := range want {
		t.Errorf("--%s is missing", name)
	}
}

// Each flag of Flux may be given with its default, as generated manifests do.
func TestDefaultsMayBeGiven(t *testing.T) {
	var f Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.Bind(set)
	set.VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.DefValue, "[") || flag.Name == "feature-gates" {
			return
		}
		if _, err := resolve(t, nil, "--"+flag.Name+"="+flag.DefValue); err != nil {
			t.Errorf("--%s=%s: %v", flag.Name, flag.DefValue, err)
		}
	})
}

// P224, P225, P226, P227, P228, P229, P230, P231, P232, P233, P234, P235: each gate is known and has Flux's default. P185: another
// one ends the start.
func TestFeatureGates(t *testing.T) {
	const refused, accepted = false, true
	tests := map[string]struct{ off, on bool }{
		"AdditiveCELDependencyCheck":     {off: accepted, on: accepted},
		"CacheSecretsAndConfigMaps":      {off: accepted, on: accepted},
		"CancelHealthCheckOnNewRevision": {off: accepted, on: accepted},
		"DirectSourceFetch":              {off: accepted, on: accepted}, // P24
		"DisableConfigWatchers":          {off: accepted, on: accepted},
		"DisableFailFastBehavior":        {off: accepted, on: accepted},
		"DisableStatusPollerCache":       {off: accepted, on: accepted},
		"ExternalArtifact":               {off: accepted, on: accepted}, // P21
		"GroupChangeLog":                 {off: accepted, on: accepted},
		"MigrateAPIVersion":              {off: accepted, on: accepted},
		"ObjectLevelWorkloadIdentity":    {off: accepted, on: accepted},
		"StrictPostBuildSubstitutions":   {off: accepted, on: accepted},
		"NoSuchGate":                     {off: refused, on: refused},
	}
	for name := range gates {
		if _, ok := tests[name]; !ok {
			t.Errorf("gate %s is not in the table of this test", name)
		}
		on := name == "DisableStatusPollerCache" || name == "StrictPostBuildSubstitutions"
		if gates[name].standard != on {
			t.Errorf("gate %s is %v by default", name, gates[name].standard)
		}
	}
	for name, test := range tests {
		for value, want := range map[string]bool{"false": test.off, "true": test.on} {
			_, err := resolve(t, nil, "--feature-gates="+name+"="+value)
			if want == accepted && err != nil {
				t.Errorf("%s=%s: %v", name, value, err)
			}
			if want == refused {
				wantUsageError(t, err, name)
			}
		}
	}
}

// P165: what can't be meant ends the start, so that nothing is done with other rights than was asked for; default accounts for
// identities without their gate are among it.
func TestRefusedFlags(t *testing.T) {
	tests := map[string]string{
		"default-decryption-service-account": "--default-decryption-service-account=apps",
		"default-kubeconfig-service-account": "--default-kubeconfig-service-account=apps",
		"default-source-service-account":     "--default-source-service-account=apps",
		"watch-label-selector":               "--watch-label-selector=a b",
		"watch-configs-label-selector":       "--watch-configs-label-selector=a b",
		"controllers":                        "--controllers=helm",
		"interval-jitter-percentage":         "--interval-jitter-percentage=100",
		"concurrent":                         "--concurrent=0",
		"concurrent-ssa":                     "--concurrent-ssa=0",
		"http-retry":                         "--http-retry=-1",
		"min-retry-delay":                    "--min-retry-delay=0s",
		"max-retry-delay":                    "--max-retry-delay=1ms",
		"requeue-dependency":                 "--requeue-dependency=0s",
		"log-encoding":                       "--log-encoding=xml",
		"log-level":                          "--log-level=loud",
		"custom-apply-stage-kinds":           "--custom-apply-stage-kinds=a/b/C",
		"watch-all-namespaces":               "--watch-all-namespaces=false",
	}
	for name, arg := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := resolve(t, nil, arg)
			wantUsageError(t, err, "--"+name)
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("the message has more than one line: %q", err)
			}
		})
	}
}

// P18, P223: so do the variables of the environment.
func TestFlagsReachTheControllers(t *testing.T) {
	env := map[string]string{NamespaceVariable: "team-a", SourceHostVariable: "localhost:8090", WatcherHostVariable: "localhost:8091"} // P18
	o, err := resolve(t, env, "--concurrent=7", "--concurrent-ssa=3", "--requeue-dependency=5s", "--min-retry-delay=1s",
		"--max-retry-delay=2m", "--no-cross-namespace-refs", "--no-remote-bases", "--interval-jitter-percentage=10",
		"--custom-apply-stage-kinds=rbac.authorization.k8s.io/Role, /Secret,rbac.authorization.k8s.io/Role",
		"--storage-path=/data", "--storage-addr=:9000", "--storage-adv-addr=holdfast.team-a.svc",
		"--artifact-retention-ttl=3m", "--artifact-retention-records=9", "--watch-all-namespaces=false",
		"--events-addr=http://events", "--metrics-addr=:1", "--health-addr=:2", "--kube-api-qps=1.5", "--kube-api-burst=6",
		"--enable-leader-election", "--leader-election-lease-duration=9s", "--leader-election-renew-deadline=8s",
		"--leader-election-retry-period=7s", "--leader-election-release-on-cancel=false", "--controllers=kustomization",
		"--feature-gates=DisableFailFastBehavior=true,StrictPostBuildSubstitutions=false,ExternalArtifact=true,MigrateAPIVersion=true,"+
			"GroupChangeLog=true,AdditiveCELDependencyCheck=true,CancelHealthCheckOnNewRevision=true",
		"--http-retry=2", "--override-manager=helm", "--override-manager=sync", "--log-encoding=console", "--log-level=debug",
		"--substitute-whole-text", "--sops-age-secret=age", "--watch-configs-label-selector=a=b")
	if err != nil {
		t.Fatal(err)
	}
	k, s := o.Kustomization, o.Source
	kinds := []schema.GroupKind{{Group: "rbac.authorization.k8s.io", Kind: "Role"}, {Kind: "Secret"}}
	if len(k.CustomApplyStageKinds) != 2 || k.CustomApplyStageKinds[0] != kinds[0] || k.CustomApplyStageKinds[1] != kinds[1] {
		t.Errorf("stage kinds are %v, want %v", k.CustomApplyStageKinds, kinds)
	}
	checks := map[string]bool{
		"concurrent":      k.Concurrent == 7 && s.Concurrent == 7,
		"concurrent-ssa":  k.ConcurrentSSA == 3,
		"requeue":         k.RequeueDependency == 5*time.Second && s.RequeueDependency == 5*time.Second,
		"retry delays":    k.MinRetryDelay == time.Second && k.MaxRetryDelay == 2*time.Minute && s.MinRetryDelay == time.Second && s.MaxRetryDelay == 2*time.Minute,
		"cross-namespace": k.NoCrossNamespaceRefs,
		"remote bases":    k.NoRemoteBases,
		"fail fast":       k.NoFailFast,
		"substitution":    k.LenientSubstitution && k.SubstituteWholeText,            // P235
		"age secret":      k.SOPSAgeSecret == "age",                                  // P216
		"watched configs": k.WatchConfigs != nil && k.WatchConfigs.String() == "a=b", // P222
		"jitter":          k.IntervalJitterPercentage == 10 && s.IntervalJitterPercentage == 10,
		"namespace":       o.Namespace == "team-a" && k.OwnNamespace == "team-a" && !o.WatchAllNamespaces,
		"source host":     k.SourceHost == "localhost:8090",
		"watcher host":    k.WatcherHost == "localhost:8091",
		"storage":         s.StoragePath == "/data" && s.StorageAddr == ":9000" && s.StorageAdvAddr == "holdfast.team-a.svc",
		"retention":       s.ArtifactRetentionTTL == 3*time.Minute && s.ArtifactRetentionRecords == 9,
		"addresses":       o.EventsAddr == "http://events" && o.MetricsAddr == ":1" && o.HealthAddr == ":2",
		"rate limits":     o.KubeAPIQPS == 1.5 && o.KubeAPIBurst == 6,
		"leader election": o.LeaderElection.Enable && !o.LeaderElection.ReleaseOnCancel && o.LeaderElection.LeaseDuration == 9*time.Second &&
			o.LeaderElection.RenewDeadline == 8*time.Second && o.LeaderElection.RetryPeriod == 7*time.Second,
		"gates":             k.ExternalArtifacts && k.MigrateAPIVersion && k.GroupChangeLog && k.AdditiveReadyExpr && k.TellCanceledChecks, // P226, P231, P232, P233
		"retries":           k.HTTPRetry == 2,
		"managers":          slices.Equal(k.OverrideManagers, []string{"helm", "sync"}), // P214
		"chosen controller": len(o.Controllers) == 1 && o.Controllers[0] == ControllerKustomization,
	}
	for what, ok := range checks {
		if !ok {
			t.Errorf("%s did not reach the settings: %+v", what, o)
		}
	}
}

// P222, P228, P235: what is watched and how variables are replaced without flags, and what the gates change.
func TestConfigWatchersAndStrictness(t *testing.T) {
	o, err := resolve(t, nil)
	if k := o.Kustomization; err != nil || k.WatchConfigs.String() != "reconcile.fluxcd.io/watch=Enabled" || k.LenientSubstitution {
		t.Errorf("%+v, %v", k, err)
	}
	o, err = resolve(t, nil, "--watch-configs-label-selector=")
	if k := o.Kustomization; err != nil || k.WatchConfigs == nil || !k.WatchConfigs.Empty() {
		t.Errorf("an empty selector does not select all: %+v, %v", k.WatchConfigs, err)
	}
	o, err = resolve(t, nil, "--feature-gates=DisableConfigWatchers=true")
	if err != nil || o.Kustomization.WatchConfigs != nil {
		t.Errorf("%v, %v", o.Kustomization.WatchConfigs, err)
	}
}

func TestDefaultOptionsRunEverything(t *testing.T) {
	o, err := DefaultOptions()
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Controllers) != 2 || !o.WatchAllNamespaces || o.Namespace != "flux-system" || o.Source.StoragePath == "" {
		t.Errorf("unexpected defaults: %+v", o)
	}
}

// resolve parses arguments as `holdfast run` does.
func resolve(t *testing.T, env map[string]string, args ...string) (Options, error) {
	t.Helper()
	var f Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	f.Bind(set)
	if err := set.Parse(args); err != nil {
		t.Fatalf("parse %v: %v", args, err)
	}
	return f.Resolve(func(key string) string { return env[key] })
}

// wantUsageError checks that an error names what was refused and ends the program with the usage code.
func wantUsageError(t *testing.T, err error, name string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s was accepted", name)
		return
	}
	var coded *Error
	if !errors.As(err, &coded) || coded.ExitCode() != ExitUsage {
		t.Errorf("%s: not a usage error: %v", name, err)
	}
	if !strings.Contains(err.Error(), name) {
		t.Errorf("the message does not name %s: %v", name, err)
	}
}

// The defaults of the policy are checked at the start: a controller that prunes by another one than was meant is worse than none.
func TestPolicyDefaults(t *testing.T) {
	options, err := resolve(t, nil, "--default-prune-order=AfterApply", "--default-retain=History", "--default-max-prune=20%", "--default-on-failure=Rollback", "--no-revision-store")
	if d := options.Kustomization.Defaults; err != nil || d.Order != "AfterApply" || d.Retain != "History" || d.Max.String() != "20%" || d.OnFailure != "Rollback" || !options.Kustomization.NoRevisionStore {
		t.Errorf("%+v %v", d, err)
	}
	for flag, want := range map[string]string{
		"--default-prune-order=Never": "want AfterHealthy or AfterApply", "--default-retain=": "want InUse, History or None",
		"--default-on-failure=Pray": "want Hold or Rollback",
		"--default-max-prune=120%":  "want a count such as 10, or a percentage from 0% to 100%",
	} {
		_, err := resolve(t, nil, flag)
		wantUsageError(t, err, want)
	}
}

// P159, P162, P191, P192, P217, P218, P219, P234: the flags reach the controller.
func TestTargetFlags(t *testing.T) {
	if o, err := resolve(t, nil); err != nil || o.Kustomization.ObjectLevelIdentity {
		t.Errorf("accounts may be named without the gate: %v", err)
	}
	o, err := resolve(t, nil, "--default-service-account=apps", "--insecure-kubeconfig-exec", "--insecure-kubeconfig-tls",
		"--feature-gates=ObjectLevelWorkloadIdentity=true", "--default-kubeconfig-service-account=far", "--default-decryption-service-account=keys",
		"--default-source-service-account=git", "--sops-vault-configmap=vaults", "--token-cache-max-size=7", "--token-cache-max-duration=5m")
	if err != nil {
		t.Fatal(err)
	}
	if k := o.Kustomization; !k.ObjectLevelIdentity || k.DefaultKubeConfigAccount != "far" || k.DefaultDecryptionAccount != "keys" ||
		k.SOPSVaultConfigMap != "vaults" || o.Tokens.MaxSize != 7 || o.Tokens.MaxDuration != 5*time.Minute {
		t.Errorf("%+v", o)
	}
	if s := o.Source; !s.ObjectLevelIdentity || s.DefaultServiceAccount != "git" {
		t.Errorf("%+v", s)
	}
	k := o.Kustomization
	if k.DefaultServiceAccount != "apps" || !k.KubeConfig.InsecureExecProvider || !k.KubeConfig.InsecureTLS {
		t.Errorf("%+v", k)
	}
}
