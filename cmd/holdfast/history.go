package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

const historyHelp = `Lists the last rollouts of a Kustomization: what was rolled out and when, what began it (the source, a rollback, a person's pin, a
retry), how it ended and how long that took. What is marked as stored can be brought back by holdfast rollback.

The command needs the right to get the Kustomization.`

const historyExamples = `  holdfast history shop
  holdfast history shop -n team-a -o json`

func newHistoryCommand(g *globals) *cobra.Command {
	var view view
	command := &cobra.Command{
		Use:     "history NAME",
		Short:   "List the last rollouts, how they ended, and which can be brought back",
		Long:    historyHelp,
		Example: historyExamples,
		Args:    cobra.ExactArgs(1),
	}
	view.bind(command.Flags())
	command.RunE = func(cmd *cobra.Command, args []string) error {
		return g.ask(cmd, &view, args, false, func(ctx context.Context, q question) (answer, error) {
			return q.History(ctx, q.namespace, q.name, time.Now())
		})
	}
	return command
}
