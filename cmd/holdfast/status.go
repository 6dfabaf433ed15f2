package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const statusHelp = `Shows a line for each Kustomization: its state, the revision that runs and the one that is wanted, since when it is so,
how many objects are kept from pruning, and why it is not healthy. What needs a person comes first; those that wait for
another one stand under it. Below are the sources. RUNS is the last revision that was seen healthy, which the ready pods serve;
WANTS is what the source offers.

States: NeedsConfirmation, Held (failed, everything is kept), Refused (the build, the spec or the API server said no),
Waiting (for a source or a dependency), Applying, Verifying, Pruning, Paused (suspended), Deleting, Healthy.

Reading Kustomizations is the only right that is needed; what else can't be read is said in a note.

With -o json or yaml: kustomizations[], sources[] (each with state, since, why), summary (total, states, kept) and
missingRights[]. With --exit-code it ends with 1 if anything shown is not Healthy.`

const statusExamples = `  # Everything in the namespace of the kubeconfig context (else flux-system), in another one, or in all
  holdfast status
  holdfast status -n team-a
  holdfast status -A

  # One of them, as data
  holdfast status shop -n team-a -o json

  # In a pipeline: fail unless all is healthy
  holdfast status -A --not-healthy --exit-code`

// notHealthyError ends `status --exit-code`.
type notHealthyError struct{ error }

func (notHealthyError) ExitCode() int { return 1 }

// statusFlags are the flags of `status`.
type statusFlags struct {
	view
	allNamespaces, notHealthy, exitCode bool
}

func newStatusCommand(g *globals) *cobra.Command {
	f := &statusFlags{}
	command := &cobra.Command{
		Use:     "status [NAME]",
		Short:   "Show Kustomizations and sources: what runs, what is wanted, and why it is not there yet",
		Long:    statusHelp,
		Example: statusExamples,
		Args:    cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	f.bind(flags)
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	flags.BoolVar(&f.notHealthy, "not-healthy", false, "show only what is not Healthy")
	flags.BoolVar(&f.exitCode, "exit-code", false, "end with 1 if anything is not Healthy")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		status, err := f.read(cmd.Context(), g, args)
		if err != nil {
			return err
		}
		shown := status
		if f.notHealthy {
			shown = status.NotHealthy()
		}
		if err := f.print(cmd.OutOrStdout(), shown, f.allNamespaces); err != nil {
			return err
		}
		if f.exitCode && status.Findings() {
			return notHealthyError{errors.New("not everything is Healthy")}
		}
		return nil
	}
	return command
}

// read asks the cluster for what the flags and arguments name.
func (f *statusFlags) read(ctx context.Context, g *globals, args []string) (report.Status, error) {
	if err := errors.Join(f.check(), oneOrAll(args, f.allNamespaces)); err != nil {
		return report.Status{}, err
	}
	inquirer, err := g.inquirer()
	if err != nil {
		return report.Status{}, err
	}
	ctx, cancel := f.context(ctx)
	defer cancel()
	switch {
	case len(args) > 0:
		namespace, name := kustomizationName(args[0], g.lookIn())
		return inquirer.StatusOf(ctx, namespace, name)
	case f.allNamespaces:
		return inquirer.Status(ctx, "")
	}
	return inquirer.Status(ctx, g.lookIn())
}

// kustomizationName reads NAME, ks/NAME or NAMESPACE/NAME.
func kustomizationName(arg, namespace string) (string, string) {
	before, name, found := strings.Cut(arg, "/")
	switch {
	case !found:
		return namespace, arg
	case before == "ks", strings.EqualFold(before, "kustomization"):
		return namespace, name
	}
	return before, name
}

// inquirer connects to the cluster.
func (g *globals) inquirer() (*inquiry.Inquirer, error) {
	config, err := g.config()
	if err != nil {
		return nil, err
	}
	return inquiry.New(config)
}
