package main

import (
	"errors"

	"github.com/spf13/cobra"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

const keptHelp = `Lists what is kept from pruning: which Kustomization keeps it, why, who uses it, since when, and what ends it. It shows
what the controller recorded in status.rollout.retained.

Reasons: AwaitingHealth, InUse, RevisionHistory, MovedElsewhere, PruneDisabled, PruneOff, AwaitingConfirmation, Protected,
Unverified, Superseded, DeleteFailed, Terminating.

With -o json or yaml: objects[], each with kustomization, id, reason, message, since, users, userCount, until; and unlisted,
the number of those that status counts and does not list.`

const keptExamples = `  # Everything that is kept, in all namespaces
  holdfast kept -A

  # What only a person can let go of
  holdfast kept -A --reason AwaitingConfirmation

  # What one Kustomization keeps, with all the users that status names
  holdfast kept shop -o wide`

func newKeptCommand(g *globals) *cobra.Command {
	var view view
	var allNamespaces bool
	var reason string
	command := &cobra.Command{
		Use:     "kept [NAME]",
		Short:   "List what is kept from pruning, why, for whom and until when",
		Long:    keptHelp,
		Example: keptExamples,
		Args:    cobra.MaximumNArgs(1),
	}
	view.bind(command.Flags())
	command.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	command.Flags().StringVar(&reason, "reason", "", "show only what is kept for this reason")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, name := g.lookIn(), ""
		switch {
		case view.check() != nil:
			return view.check()
		case allNamespaces && len(args) > 0:
			return usageError{errors.New("a NAME and --all-namespaces exclude each other: give --namespace with a NAME")}
		case allNamespaces:
			namespace = ""
		case len(args) > 0:
			namespace, name = kustomizationName(args[0], g.lookIn())
		}
		inquirer, err := g.inquirer()
		if err != nil {
			return err
		}
		ctx, cancel := view.context(cmd.Context())
		defer cancel()
		kept, err := inquirer.Kept(ctx, namespace, name, v1.RetentionReason(reason))
		if err != nil {
			return err
		}
		return view.print(cmd.OutOrStdout(), kept, allNamespaces)
	}
	return command
}
