package app

import (
	"fmt"

	"github.com/fluxcd/pkg/cache"
	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/spf13/pflag"

	"github.com/holdfast-gitops/holdfast/internal/controller/gitrepository"
	"github.com/holdfast-gitops/holdfast/internal/controller/kustomization"
)

// The controllers of the process, as --controllers names them.
const (
	ControllerSource        = "source"
	ControllerKustomization = "kustomization"
)

// Options are the settings of the process. DefaultOptions has those of `holdfast run` without flags.
type Options struct {
	// Controllers are the names of those that run.
	Controllers []string
	// Takeover starts them even if another controller with the same work is alive.
	Takeover bool
	// Namespace is the one that the process runs in; the leader election lease is there, and it is never pruned.
	Namespace string
	// WatchAllNamespaces is false to look at Namespace only.
	WatchAllNamespaces bool
	// ShardSelector is a label selector: only the Kustomizations and GitRepositories that it selects are looked after. Empty selects all.
	ShardSelector string
	// MetricsAddr and HealthAddr are listening addresses; "0" turns the server off.
	MetricsAddr, HealthAddr string
	// EventsAddr is the address of a notification-controller that gets the events too.
	EventsAddr string
	// LeaderElection is Flux's set of leader election settings.
	LeaderElection leaderelection.Options
	// KubeAPIQPS and KubeAPIBurst limit requests where the API server has priority and fairness switched off.
	KubeAPIQPS   float32
	KubeAPIBurst int
	// Tokens bounds the tokens of identities that are kept; a size of zero keeps none.
	Tokens cache.TokenFlags
	// SkipNameValidation allows several managers in one process, for tests.
	SkipNameValidation bool
	// Kustomization and Source are the settings of the controllers. Run fills in their Recorder.
	Kustomization kustomization.Options
	Source        gitrepository.Options
}

// DefaultOptions returns the settings of `holdfast run` without flags and environment.
func DefaultOptions() (Options, error) {
	o, err := OptionsOf(nil)
	if err != nil {
		return o, fmt.Errorf("resolve the default flags: %w", err)
	}
	return o, nil
}

// OptionsOf returns the settings of `holdfast run` with the given flags and without environment.
func OptionsOf(flags []string) (Options, error) {
	var f Flags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.Bind(set)
	if err := set.Parse(flags); err != nil {
		return Options{}, err
	}
	return f.Resolve(func(string) string { return "" })
}
