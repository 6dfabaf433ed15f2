package app

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// refuse checks what was set against what there is.
func (f *Flags) refuse() error {
	if err := f.checkValues(); err != nil {
		return err
	}
	if err := f.refuseGates(); err != nil {
		return err
	}
	return f.checkIdentities()
}

// checkIdentities refuses accounts that nothing would use: the identity of the controller would be used in their place.
func (f *Flags) checkIdentities() error {
	for _, flag := range []struct{ name, value string }{
		{identity.DecryptionFlag, f.defaultDecryptionAccount}, {identity.KubeConfigFlag, f.defaultKubeConfigAccount},
		{identity.SourceFlag, f.defaultSourceAccount},
	} {
		if flag.value == "" {
			continue
		}
		if !f.gate(identity.Gate) {
			return usageErrorf("--%s is %q, and the feature gate %s is off: set --feature-gates=%s=true, or leave the flag out", flag.name, flag.value,
				identity.Gate, identity.Gate)
		}
		if problems := validation.IsDNS1123Subdomain(flag.value); len(problems) > 0 {
			return usageErrorf("--%s is %q: use the name of a ServiceAccount", flag.name, flag.value)
		}
	}
	return nil
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
