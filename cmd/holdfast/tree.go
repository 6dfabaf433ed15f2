package main

import (
	"context"

	"github.com/spf13/cobra"
)

const treeHelp = `Shows what a Kustomization has on the cluster, by its inventory, and what the Kustomizations in it have: with the state of each of these,
and with the reason where an object is only kept from pruning. One that is not there, or may not be read, is marked.

The command needs the right to get Kustomizations.

With -o json or yaml: object, state, runs, why, kept, note, has[] of the same.`

const treeExamples = `  holdfast tree flux-system
  holdfast tree shop -n team-a -o json`

func newTreeCommand(g *globals) *cobra.Command {
	var view view
	command := &cobra.Command{
		Use:     "tree NAME",
		Short:   "Show what a Kustomization has on the cluster, and what those in it have",
		Long:    treeHelp,
		Example: treeExamples,
		Args:    cobra.ExactArgs(1),
	}
	view.bind(command.Flags())
	command.RunE = func(cmd *cobra.Command, args []string) error {
		return g.ask(cmd, &view, args, false, func(ctx context.Context, q question) (answer, error) {
			return q.Tree(ctx, q.namespace, q.name)
		})
	}
	return command
}
