package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/holdfast-gitops/holdfast/internal/identity"
)

// gate is a feature gate of Flux and how holdfast stands to it.
type gate struct {
	// standard is Flux's default.
	standard bool
	// note says what the gate means here.
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

// gates are Flux's feature gates. Either value is accepted of all: they are implemented, or what they switch on holds anyway.
var gates = map[string]gate{
	gateAdditiveReadyExpr:       {standard: false, note: "when on, a dependency with a readyExpr has to be ready as well"},
	"CacheSecretsAndConfigMaps": {standard: false, note: "Secrets and ConfigMaps are always read from the API server"},
	gateTellCanceled:            {standard: false, note: "a new revision always interrupts the health check of the old one; when on, that is reported as HealthCheckCanceled"},
	"DirectSourceFetch":         {standard: false, note: "sources are always read from the API server"},
	gateNoConfigWatchers:        {standard: false, note: "when on, a change of a labelled ConfigMap or Secret waits for the next interval"},
	gateNoFailFast:              {standard: false, note: "when on, a failed object does not end the health check, its timeout does"},
	"DisableStatusPollerCache":  {standard: true, note: "health is read from the API server, there is no poller"},
	gateExternalArtifact:        {standard: false, note: "when on, sources of this kind are followed"},
	gateGroupChangeLog:          {standard: false, note: "when on, the log groups the objects of an apply by what was done"},
	gateMigrateAPIVersion:       {standard: false, note: "when on, managed fields are rewritten to the API version of the manifest"},
	identity.Gate:               {standard: false, note: "when on, objects may name ServiceAccounts whose identity gets their credentials"},
	gateStrict:                  {standard: true, note: "on, a variable with neither value nor default fails the build; off, it is empty"},
}

// gateNames returns the names of all gates, sorted.
func gateNames() []string {
	return slices.Sorted(maps.Keys(gates))
}

func (f *Flags) bindGates(fs *pflag.FlagSet) {
	notes := make([]string, 0, len(gates))
	for _, name := range gateNames() {
		notes = append(notes, fmt.Sprintf("%s (%s)", name, gates[name].note))
	}
	fs.Var(cliflag.NewMapStringBool(&f.gates), "feature-gates",
		"Flux's feature gates, as 'Name=bool,Name=bool'. Accepted with any value: "+strings.Join(notes, ", ")+".")
}

// gate returns the value of a gate.
func (f *Flags) gate(name string) bool {
	if value, ok := f.gates[name]; ok {
		return value
	}
	return gates[name].standard
}

// refuseGates refuses unknown gates, as Flux does.
func (f *Flags) refuseGates() error {
	for _, name := range slices.Sorted(maps.Keys(f.gates)) {
		if _, ok := gates[name]; !ok {
			return usageErrorf("feature gate %q is not known: the gates are %s", name, strings.Join(gateNames(), ", "))
		}
	}
	return nil
}
