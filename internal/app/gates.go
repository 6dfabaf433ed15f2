package app

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// gate is a feature gate of Flux and how holdfast stands to it.
type gate struct {
	// standard is Flux's default.
	standard bool
	// free says that either value is accepted: the gate is implemented, or what it switches on holds anyway.
	free bool
	// note says what a free gate means here; for the others, what to do instead of changing them.
	note string
}

// The gates that have an effect.
const (
	gateNoFailFast        = "DisableFailFastBehavior"
	gateTellCanceled      = "CancelHealthCheckOnNewRevision"
	gateAdditiveReadyExpr = "AdditiveCELDependencyCheck"
	gateNoConfigWatchers  = "DisableConfigWatchers"
	gateStrict            = "StrictPostBuildSubstitutions"
	gateMigrateAPIVersion = "MigrateAPIVersion"
	gateExternalArtifact  = "ExternalArtifact"
	gateGroupChangeLog    = "GroupChangeLog"
)

// gates are Flux's feature gates. Those that are not free can only have their default.
var gates = map[string]gate{
	gateAdditiveReadyExpr:         {standard: false, free: true, note: "when on, a dependency with a readyExpr has to be ready as well"},
	"CacheSecretsAndConfigMaps":   {standard: false, free: true, note: "Secrets and ConfigMaps are always read from the API server"},
	gateTellCanceled:              {standard: false, free: true, note: "a new revision always interrupts the health check of the old one; when on, that is reported as HealthCheckCanceled"},
	"DirectSourceFetch":           {standard: false, free: true, note: "sources are always read from the API server"},
	gateNoConfigWatchers:          {standard: false, free: true, note: "when on, a change of a labelled ConfigMap or Secret waits for the next interval"},
	gateNoFailFast:                {standard: false, free: true, note: "when on, a failed object does not end the health check, its timeout does"},
	"DisableStatusPollerCache":    {standard: true, free: true, note: "health is read from the API server, there is no poller"},
	gateExternalArtifact:          {standard: false, free: true, note: "when on, sources of this kind are followed"},
	gateGroupChangeLog:            {standard: false, free: true, note: "when on, the log groups the objects of an apply by what was done"},
	gateMigrateAPIVersion:         {standard: false, free: true, note: "when on, managed fields are rewritten to the API version of the manifest"},
	"ObjectLevelWorkloadIdentity": {standard: false, note: "leave it off: workload identity is not supported yet"},
	gateStrict:                    {standard: true, free: true, note: "on, a variable with neither value nor default fails the build; off, it is empty"},
}

// gateNames returns the names of all gates, sorted.
func gateNames() []string {
	return slices.Sorted(maps.Keys(gates))
}

func (f *Flags) bindGates(fs *pflag.FlagSet) {
	var free, fixed []string
	for _, name := range gateNames() {
		if gates[name].free {
			free = append(free, fmt.Sprintf("%s (%s)", name, gates[name].note))
		} else {
			fixed = append(fixed, fmt.Sprintf("%s=%t", name, gates[name].standard))
		}
	}
	fs.Var(cliflag.NewMapStringBool(&f.gates), "feature-gates",
		"Flux's feature gates, as 'Name=bool,Name=bool'. Accepted with any value: "+strings.Join(free, ", ")+
			". Accepted with their default only: "+strings.Join(fixed, ", ")+".")
}

// gate returns the value of a gate.
func (f *Flags) gate(name string) bool {
	if value, ok := f.gates[name]; ok {
		return value
	}
	return gates[name].standard
}

// refuseGates refuses unknown gates, as Flux does, and values that holdfast can't honour.
func (f *Flags) refuseGates() error {
	for _, name := range slices.Sorted(maps.Keys(f.gates)) {
		known, ok := gates[name]
		switch value := f.gates[name]; {
		case !ok:
			return usageErrorf("feature gate %q is not known: the gates are %s", name, strings.Join(gateNames(), ", "))
		case !known.free && value != known.standard:
			return usageErrorf("feature gate %s=%s is not supported: %s", name, strconv.FormatBool(value), known.note)
		}
	}
	return nil
}
