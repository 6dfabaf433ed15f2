package main

import (
	"context"

	"github.com/spf13/cobra"
)

const diffHelp = `Compares two stored revisions of a Kustomization, or one with what runs. A revision is named by its number in holdfast history, its commit, or its
digest; the beginning is enough. Generated config that got another name is one change, with the keys that differ. Values of
Secrets are never shown.

The command needs the right to get the Kustomization, and the Secrets beside it in which revisions are stored.`

const diffExamples = `  # From rollout 9 to rollout 11
  holdfast diff shop 9 11

  # From a commit to what runs
  holdfast diff shop 1f0c9d2`

func newDiffCommand(g *globals) *cobra.Command {
	var view view
	command := &cobra.Command{
		Use:     "diff NAME REVISION [REVISION]",
		Short:   "Compare two stored revisions, or one with what runs",
		Long:    diffHelp,
		Example: diffExamples,
		Args:    cobra.RangeArgs(2, 3),
	}
	view.bind(command.Flags())
	command.RunE = func(cmd *cobra.Command, args []string) error {
		to := ""
		if len(args) > 2 {
			to = args[2]
		}
		return g.ask(cmd, &view, args, false, func(ctx context.Context, q question) (answer, error) {
			return q.Diff(ctx, q.namespace, q.name, args[1], to)
		})
	}
	return command
}
