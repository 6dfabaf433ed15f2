package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const rootHelp = `holdfast applies what a Git repository says to a Kubernetes cluster, waits until it is healthy, and only then
removes what is no longer wanted and no longer used.

It reads the resources of Flux, GitRepository and Kustomization, field for field. Where to begin:

  holdfast install       puts CRDs and controller into the cluster of the current kubeconfig context
  holdfast run           runs the controller on this machine instead
  holdfast status        shows what runs, what is wanted, and what is in the way
  holdfast why           says why something fails, or why an object is still there
  holdfast kept          lists what is kept from pruning
  holdfast confirm       shows a deletion that waits for a person, and allows it

Exit codes: 0 fine, 1 finding, 2 failed, 64 wrong usage, 69 cluster not reachable or right missing.`

const rootExamples = `  # What would be installed
  holdfast install --export

  # Install only the CRDs and run the controller here
  holdfast install --crds-only
  holdfast run`

// globals are the flags that every command has.
type globals struct {
	kubeconfig, context, namespace string
}

// newRootCommand builds the command tree. A new command is added here and nowhere else.
func newRootCommand() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:           "holdfast",
		Short:         "GitOps for Kubernetes that keeps what running workloads still need",
		Long:          rootHelp,
		Example:       rootExamples,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())}
	})
	flags := root.PersistentFlags()
	flags.StringVar(&g.kubeconfig, "kubeconfig", "", "kubeconfig file; otherwise $KUBECONFIG, the pod's own account, or ~/.kube/config")
	flags.StringVar(&g.context, "context", "", "kubeconfig context; otherwise the current one")
	flags.StringVarP(&g.namespace, "namespace", "n", "flux-system", "namespace to look in or to install to")
	root.AddCommand(
		newConfirmCommand(g),
		newInstallCommand(g),
		newKeptCommand(g),
		newRunCommand(g),
		newStatusCommand(g),
		newVersionCommand(),
		newWhyCommand(g),
	)
	for _, command := range root.Commands() {
		command.Args = asUsage(command.Args)
	}
	root.Args = asUsage(root.Args)
	return root
}

// asUsage makes errors about positional arguments end with the usage exit code.
func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// config connects to the cluster that the flags and the environment name.
func (g *globals) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: g.context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, noClusterError{fmt.Errorf("no cluster to talk to: give --kubeconfig or set KUBECONFIG: %w", err)}
	}
	config.UserAgent = "holdfast/" + buildVersion()
	return config, nil
}

// noClusterError is a kubeconfig that can't be used.
type noClusterError struct{ error }

func (noClusterError) ExitCode() int { return 69 }

func (e noClusterError) Unwrap() error { return e.error }
