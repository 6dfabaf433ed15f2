package main

import (
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
		if err := view.check(); err != nil {
			return err
		}
		inquirer, err := g.inquirer()
		if err != nil {
			return err
		}
		ctx, cancel := view.context(cmd.Context())
		defer cancel()
		namespace, name := kustomizationName(args[0], g.lookIn())
		history, err := inquirer.History(ctx, namespace, name, time.Now())
		if err != nil {
			return err
		}
		return view.print(cmd.OutOrStdout(), history, false)
	}
	return command
}
