package app

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// refusedFlags are flags of Flux whose meaning holdfast doesn't have yet, with what to do instead. Left at their default
// they say nothing; set to something else they end the start, because a controller that ignores them would act with
// other rights or on other objects than it was told to.
var refusedFlags = map[string]string{
	"default-decryption-service-account": "leave it out: put the credentials into the decryption Secret",
	"default-kubeconfig-service-account": "leave it out: credentials from a cloud provider (spec.kubeConfig.configMapRef) are not supported yet",
	"sops-vault-configmap":               "leave it out: put a token into sops.vault-token of the decryption Secret, or into the environment variable VAULT_TOKEN",
}

// bindRefused adds the flags of Flux that no other set of flags has.
func bindRefused(fs *pflag.FlagSet) {
	fs.String("default-decryption-service-account", "", "Not supported yet: default account for decryption.")
	fs.String("default-kubeconfig-service-account", "", "Not supported yet: default account for kubeconfigs.")
	fs.String("sops-vault-configmap", "", "Not supported yet: ConfigMap with the trusted Vault servers.")
	fs.Int("token-cache-max-size", 100, "Accepted, without effect: holdfast fetches no tokens that could be cached.")
	fs.Duration("token-cache-max-duration", time.Hour, "Accepted, without effect: holdfast fetches no tokens that could be cached.")
	for name := range refusedFlags {
		if flag := fs.Lookup(name); flag != nil && !strings.HasPrefix(flag.Usage, "Not supported yet") {
			flag.Usage = "Not supported yet. " + flag.Usage
		}
	}
}

// refuse checks what was set against what there is.
func (f *Flags) refuse() error {
	var refused error
	// VisitAll goes by name, so that the same flags give the same message.
	f.set.VisitAll(func(flag *pflag.Flag) {
		advice, ok := refusedFlags[flag.Name]
		if ok && refused == nil && flag.Value.String() != flag.DefValue {
			refused = usageErrorf("--%s is not supported yet: %s", flag.Name, advice)
		}
	})
	if refused != nil {
		return refused
	}
	if err := f.checkValues(); err != nil {
		return err
	}
	return f.refuseGates()
}

// checkValues refuses values that no run can use.
func (f *Flags) checkValues() error {
	if err := f.checkControllers(); err != nil {
		return err
	}
	if err := f.checkDelays(); err != nil {
		return err
	}
	switch {
	case f.jitter.Percentage > 99:
		return usageErrorf("--interval-jitter-percentage is %d: use 0 to 99", f.jitter.Percentage)
	case f.concurrent < 1:
		return usageErrorf("--concurrent is %d: use 1 or more", f.concurrent)
	case f.concurrentSSA < 1:
		return usageErrorf("--concurrent-ssa is %d: use 1 or more", f.concurrentSSA)
	case f.httpRetry < 0:
		return usageErrorf("--http-retry is %d: use 0 or more", f.httpRetry)
	case !slices.Contains([]string{"json", "console"}, f.Log.LogEncoding):
		return usageErrorf("--log-encoding is %q: use json or console", f.Log.LogEncoding)
	case !slices.Contains([]string{"trace", "debug", "info", "error"}, f.Log.LogLevel):
		return usageErrorf("--log-level is %q: use trace, debug, info or error", f.Log.LogLevel)
	}
	return nil
}

func (f *Flags) checkControllers() error {
	if len(f.controllers) == 0 {
		return usageErrorf("--controllers is empty: name %s, %s or both", ControllerSource, ControllerKustomization)
	}
	for _, name := range f.controllers {
		if name != ControllerSource && name != ControllerKustomization {
			return usageErrorf("--controllers has %q: the controllers are %s and %s", name, ControllerSource, ControllerKustomization)
		}
	}
	return nil
}

func (f *Flags) checkDelays() error {
	shortest, longest := f.rateLimiter.MinRetryDelay, f.rateLimiter.MaxRetryDelay
	switch {
	case shortest <= 0 || longest < shortest:
		return usageErrorf("--min-retry-delay is %s and --max-retry-delay %s: the first must be above 0 and not above the second", shortest, longest)
	case f.requeueDependency <= 0:
		return usageErrorf("--requeue-dependency is %s: use a duration above 0", f.requeueDependency)
	}
	return nil
}
