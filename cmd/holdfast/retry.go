package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const retryHelp = `Tries the revision that Git wants once more, after it failed or was rolled back. It writes the annotation holdfast.dev/retry. A failure is
rolled back again where the policy says so. A pin by a person goes on: holdfast release ends it.

With --wait: 0 healthy, 2 failed, 3 rolled back, 4 the time ran out. The command needs the right to get and patch the
Kustomization.`

const retryExamples = `  holdfast retry shop --wait`

func newRetryCommand(g *globals) *cobra.Command {
	w := &waiting{}
	command := &cobra.Command{
		Use:     "retry NAME",
		Short:   "Try a failed revision once more",
		Long:    retryHelp,
		Example: retryExamples,
		Args:    cobra.ExactArgs(1),
	}
	w.bind(command, "it is healthy or has failed")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		return g.order(cmd, w, args, func(ctx context.Context, q question) (answer, heard, error) {
			value, err := control.Retry(ctx, q.client, q.namespace, q.name, time.Now())
			return report.Command{Namespace: q.namespace, Name: q.name, Text: "asked to try the wanted revision once more"},
				func(ks *v1.Kustomization) bool { return heardOf(ks).Retry == value }, err
		})
	}
	return command
}
