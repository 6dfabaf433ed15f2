package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const statusHelp = `Shows a line for each Kustomization: its state, the revision that runs and the one that is wanted, since when it is so,
how many objects are kept from pruning, and why it is not healthy. What needs a person comes first; those that wait for
another one stand under it. Below are the sources.

States: NeedsConfirmation, Held (failed, everything is kept), Refused (the build, the spec or the API server said no),
Waiting (for a source or a dependency), Applying, Verifying, Pruning, Paused (suspended), Deleting, Healthy.

Reading Kustomizations is the only right that is needed; what else can't be read is said in a note.

With -o json or yaml: kustomizations[], sources[] (each with state, since, why), summary (total, states, kept) and
missingRights[]. With --exit-code it ends with 1 if anything shown is not Healthy.`

const statusExamples = `  # Everything in the namespace flux-system, or in all
  holdfast status
  holdfast status -A

  # One of them, as data
  holdfast status shop -n team-a -o json

  # In a pipeline: fail unless all is healthy
  holdfast status -A --not-healthy --exit-code`

// notHealthyError ends `status --exit-code`.
type notHealthyError struct{ error }

func (notHealthyError) ExitCode() int { return 1 }

func newStatusCommand(g *globals) *cobra.Command {
	var (
		view                           view
		allNamespaces, unwell, andCode bool
	)
	command := &cobra.Command{
		Use:     "status [NAME]",
		Short:   "Show Kustomizations and sources: what runs, what is wanted, and why it is not there yet",
		Long:    statusHelp,
		Example: statusExamples,
		Args:    cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	view.bind(flags)
	flags.BoolVarP(&allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	flags.BoolVar(&unwell, "not-healthy", false, "show only what is not Healthy")
	flags.BoolVar(&andCode, "exit-code", false, "end with 1 if anything is not Healthy")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := view.check(); err != nil {
			return err
		}
		if allNamespaces && len(args) > 0 {
			return usageError{errors.New("a NAME and --all-namespaces exclude each other: give --namespace with a NAME")}
		}
		ctx, cancel := view.context(cmd.Context())
		defer cancel()
		inquirer, err := g.inquirer()
		if err != nil {
			return err
		}
		var status report.Status
		switch {
		case len(args) > 0:
			namespace, name := kustomizationName(args[0], g.namespace)
			status, err = inquirer.StatusOf(ctx, namespace, name)
		case allNamespaces:
			status, err = inquirer.Status(ctx, "")
		default:
			status, err = inquirer.Status(ctx, g.namespace)
		}
		if err != nil {
			return err
		}
		shown := status
		if unwell {
			shown = status.NotHealthy()
		}
		if err := view.print(cmd.OutOrStdout(), shown, allNamespaces); err != nil {
			return err
		}
		if andCode && status.Findings() {
			return notHealthyError{errors.New("not everything is Healthy")}
		}
		return nil
	}
	return command
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
