package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-gitops/holdfast/internal/install"
)

const rootHelp = `holdfast applies what a Git repository says to a Kubernetes cluster, waits until it is healthy, and only then
removes what is no longer wanted and no longer used.

It reads the resources of Flux, GitRepository and Kustomization, field for field. Where to begin:

  holdfast install       puts CRDs and controller into the cluster of the current kubeconfig context
  holdfast uninstall     takes the controller away, and keeps everything that it deployed
  holdfast run           runs the controller on this machine instead
  holdfast status        shows what runs, what is wanted, and what is in the way
  holdfast why           says why something fails, or why an object is still there
  holdfast kept          lists what is kept from pruning
  holdfast plan          says what a change would do, before it is pushed
  holdfast confirm       shows a deletion that waits for a person, and allows it
  holdfast wait          waits until a commit is healthy or has failed, for pipelines
  holdfast tree          shows what a Kustomization has, and what those in it have
  holdfast events        lists what happened to Kustomizations and sources
  holdfast history       lists what was rolled out and how it ended; holdfast diff compares
  holdfast rollback      brings a healthy revision back; holdfast release and retry end that
  holdfast reconcile     looks now instead of at the next interval, with --with-source after fetching
  holdfast suspend       stops a Kustomization; holdfast resume goes on
  holdfast pause         stops a Kustomization for a time, with a reason
  holdfast completion    prints completion for your shell, with the names of your Kustomizations
  holdfast takeover      says what happens when holdfast takes over from Flux; holdfast handback about the way back
  holdfast release       leaves what was kept while pruning was off on the cluster for good

The program is a plugin of kubectl, too, where it is found as kubectl-holdfast: kubectl holdfast status.

Commands that look at the cluster look in the namespace of --namespace, else in that of the kubeconfig context, as kubectl
does, else in flux-system. install, uninstall and run use flux-system unless --namespace is given.

Exit codes: 0 fine, 1 finding, 2 failed or not done, 3 rolled back, 4 time ran out, 5 can't happen as things are, 64 wrong usage, 69 cluster not reachable or right missing.`

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
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: calledAs()}
	root.Version = buildVersion()
	root.SetVersionTemplate(versionLine())
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Name() != "run" {
			// What the libraries log of a cluster that does not answer says nothing that the error does not.
			logger.SetLogger(logr.Discard())
		}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())}
	})
	flags := root.PersistentFlags()
	flags.StringVar(&g.kubeconfig, "kubeconfig", "", "kubeconfig file; otherwise $KUBECONFIG, the pod's own account, or ~/.kube/config")
	flags.StringVar(&g.context, "context", "", "kubeconfig context; otherwise the current one")
	flags.StringVarP(&g.namespace, "namespace", "n", "", "namespace; otherwise that of the kubeconfig context, or flux-system")
	root.AddCommand(
		newConfirmCommand(g),
		newDiffCommand(g),
		newEventsCommand(g),
		newHandbackCommand(g),
		newHistoryCommand(g),
		newInstallCommand(g),
		newKeptCommand(g),
		newPauseCommand(g),
		newPlanCommand(g),
		newReconcileCommand(g),
		newReleaseCommand(g),
		newRemoteBuildCommand(),
		newResumeCommand(g),
		newRetryCommand(g),
		newRollbackCommand(g),
		newRunCommand(g),
		newStatusCommand(g),
		newSuspendCommand(g),
		newTakeoverCommand(g),
		newTreeCommand(g),
		newUninstallCommand(g),
		newVersionCommand(),
		newWaitCommand(g),
		newWhyCommand(g),
	)
	for _, command := range root.Commands() {
		command.Args = asUsage(command.Args)
	}
	root.Args = asUsage(root.Args)
	if err := setUpCompletion(root, g); err != nil {
		panic(err) // the flag is the one that was made above
	}
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
	config, err := g.kubeconfigLoader().ClientConfig()
	if err != nil {
		return nil, noClusterError{fmt.Errorf("no cluster to talk to: %s: %w", kubeconfigAdvice(), err)}
	}
	config.UserAgent = "holdfast/" + buildVersion()
	return config, nil
}

func (g *globals) kubeconfigLoader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: g.context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// kubeconfigAdvice names the files of KUBECONFIG that are not there: the library passes over them without a word.
func kubeconfigAdvice() string {
	var missing []string
	for _, path := range filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, path)
		}
	}
	if len(missing) > 0 {
		return "KUBECONFIG names " + strings.Join(missing, ", ") + ", which does not exist"
	}
	return "give --kubeconfig or set KUBECONFIG"
}

// lookIn is the namespace that a question is about.
func (g *globals) lookIn() string {
	if g.namespace != "" {
		return g.namespace
	}
	// A kubeconfig that can't be read is told by config.
	if raw, err := g.kubeconfigLoader().RawConfig(); err == nil {
		name := raw.CurrentContext
		if g.context != "" {
			name = g.context
		}
		if context := raw.Contexts[name]; context != nil && context.Namespace != "" {
			return context.Namespace
		}
	}
	return install.DefaultNamespace
}

// noClusterError is a kubeconfig that can't be used.
type noClusterError struct{ error }

func (noClusterError) ExitCode() int { return 69 }

func (e noClusterError) Unwrap() error { return e.error }
