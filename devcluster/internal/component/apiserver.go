package component

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/holdfast-gitops/holdfast/devcluster/internal/contract"
)

// runAPIServer does what the command of kube-apiserver does, except that it
// serves on a socket which the supervisor has bound: so the port is known and
// taken before anything starts, and no two clusters can race for it.
func runAPIServer(ctx context.Context, args []string) error {
	listener, err := net.FileListener(os.NewFile(contract.FDExtra, "listener"))
	if err != nil {
		return fmt.Errorf("take over the socket of the API server: %w", err)
	}
	o := options.NewServerRunOptions()
	if err := parseAPIServerFlags(o, args); err != nil {
		return err
	}
	registry := o.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return fmt.Errorf("set feature gates of the API server: %w", err)
	}
	// The server's own clients should not log the warnings it issues itself.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(o.Logs, registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)); err != nil {
		return fmt.Errorf("set up logs of the API server: %w", err)
	}
	o.SecureServing.Listener = listener
	completed, err := o.Complete(ctx)
	if err != nil {
		return fmt.Errorf("complete options of the API server: %w", err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return fmt.Errorf("validate options of the API server: %w", utilerrors.NewAggregate(errs))
	}
	if err := app.Run(ctx, completed); err != nil {
		return fmt.Errorf("run the API server: %w", err)
	}
	return nil
}

func parseAPIServerFlags(o *options.ServerRunOptions, args []string) error {
	sets := o.Flags()
	globalflag.AddGlobalFlags(sets.FlagSet("global"), contract.APIServer, logs.SkipLoggingConfigurationFlags())
	flags := pflag.NewFlagSet(contract.APIServer, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read flags of the API server: %w", err)
	}
	return nil
}
