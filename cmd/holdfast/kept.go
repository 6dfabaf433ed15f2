package main

import (
	"context"

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
		if err := oneOrAll(args, allNamespaces); err != nil {
			return err
		}
		return g.ask(cmd, &view, args, allNamespaces, func(ctx context.Context, q question) (answer, error) {
			return q.Kept(ctx, q.in(allNamespaces), q.name, v1.RetentionReason(reason))
		})
	}
	return command
}
