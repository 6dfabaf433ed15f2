package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/scratch"
)

const runHelp = `Runs the controllers until it gets SIGTERM or SIGINT. In a pod it uses the pod's own account, elsewhere the
kubeconfig. The cluster needs the CRDs first: holdfast install --crds-only.

The flags are those of Flux's kustomize-controller with the same defaults, and the storage flags of its
source-controller. A flag or feature gate that is not supported yet ends the start with exit code 64 when it is set to
something else than its default.

It listens on three ports, on all interfaces unless the flags name one: artifacts (--storage-addr), metrics and pprof
(--metrics-addr), health (--health-addr). On your own machine: --storage-addr=127.0.0.1:9090 and so on.

Environment: RUNTIME_NAMESPACE is the namespace of the controller (otherwise that of --namespace, else flux-system);
SOURCE_CONTROLLER_LOCALHOST replaces the host of artifact URLs, SOURCE_WATCHER_LOCALHOST that of those of Flux's source-watcher.

It does not start beside a controller of Flux with the same work that holds its leader election lease, unless --takeover is set.`

const runExamples = `  # On this machine, against the current kubeconfig context
  holdfast run --log-encoding=console

  # Beside Flux's source-controller, in place of its kustomize-controller
  holdfast run --controllers=kustomization

  # The one namespace only
  RUNTIME_NAMESPACE=team-a holdfast run --watch-all-namespaces=false`

func newRunCommand(g *globals) *cobra.Command {
	var flags app.Flags
	command := &cobra.Command{
		Use:     "run",
		Short:   "Run the controllers",
		Long:    runHelp,
		Example: runExamples,
		Args:    cobra.NoArgs,
	}
	flags.Bind(command.Flags())
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		options, err := flags.Resolve(g.environment(cmd))
		if err != nil {
			return err
		}
		logger.SetLogger(logger.NewLogger(flags.Log))
		if options.Kustomization.RemoteBuilds, err = remoteBuilds(); err != nil {
			return err
		}
		config, err := g.config()
		if err != nil {
			return err
		}
		return inScratch(func() error { return app.Run(cmd.Context(), config, options) })
	}
	return command
}

// inScratch runs a function with a directory for temporary files that does not outlive the process for long, however it ends.
func inScratch(run func() error) error {
	dir, closeDir, err := scratch.Open(os.TempDir())
	if err != nil {
		return err
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return errors.Join(fmt.Errorf("set the directory for temporary files: %w", err), closeDir())
	}
	return errors.Join(run(), closeDir())
}

// environment reads the environment, in which --namespace stands in for an empty RUNTIME_NAMESPACE.
func (g *globals) environment(cmd *cobra.Command) func(string) string {
	return func(key string) string {
		value := os.Getenv(key)
		if value == "" && key == app.NamespaceVariable && cmd.Flags().Changed("namespace") {
			return g.namespace
		}
		return value
	}
}
