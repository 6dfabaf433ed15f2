package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

const handbackHelp = `Says whether Flux may take over again. Nothing is changed.

Flux deletes with its next apply whatever an inventory has and the source lacks, in use or not. So it is not ready while anything is kept that
Flux would delete at once, while a rollout is on its way, while a revision is pinned or was rolled back, since Flux applies what Git says, and
while a Kustomization has spec.rollout, which Flux's definition does not know. What Flux would leave on the cluster is noted.

It ends with 0 if Flux may take over, with the steps; and with 1 if not. The command needs the right to list Kustomizations and to get
their definition.

With -o json or yaml: ready, findings[] (subject, message, do[]), deletes[] (kustomization, id, reason, users, until), unlisted, notes[],
steps[], missingRights[].`

const handbackExamples = `  holdfast handback --check -A

  # In a script: only if nothing is lost
  holdfast handback --check -A -q && kubectl scale deployment kustomize-controller -n flux-system --replicas=1`

func newHandbackCommand(g *globals) *cobra.Command {
	var view view
	var check, allNamespaces, quiet bool
	command := &cobra.Command{
		Use:     "handback --check",
		Short:   "Say whether Flux may take over again",
		Long:    handbackHelp,
		Example: handbackExamples,
		Args:    cobra.NoArgs,
	}
	view.bind(command.Flags())
	command.Flags().BoolVar(&check, "check", false, "look, and change nothing; there is no other way to call it")
	command.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	command.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing; the exit code is the answer")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOnly(check, view); err != nil {
			return err
		}
		inquirer, err := g.inquirer()
		if err != nil {
			return err
		}
		ctx, cancel := view.context(cmd.Context())
		defer cancel()
		answer, err := inquirer.Handback(ctx, g.checkIn(allNamespaces), time.Now())
		if err != nil {
			return err
		}
		if !quiet {
			if err := view.print(cmd.OutOrStdout(), answer, allNamespaces); err != nil {
				return err
			}
		}
		if answer.Ready {
			return nil
		}
		return notReadyError{errors.New("not ready: Flux would lose something; see what is to do above")}
	}
	return command
}
