package main

import (
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

// retryFlags are the flags of `retry`.
type retryFlags struct {
	view
	wait bool
}

func newRetryCommand(g *globals) *cobra.Command {
	f := &retryFlags{}
	command := &cobra.Command{
		Use:     "retry NAME",
		Short:   "Try a failed revision once more",
		Long:    retryHelp,
		Example: retryExamples,
		Args:    cobra.ExactArgs(1),
	}
	f.bind(command.Flags())
	command.Flags().BoolVar(&f.wait, "wait", false, "wait until it is healthy or has failed; --timeout is 10m then")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if f.wait && !cmd.Flags().Changed("timeout") {
			f.timeout = waitTimeout
		}
		namespace, name := kustomizationName(args[0], g.lookIn())
		return f.run(cmd, g, namespace, name)
	}
	return command
}

func (f *retryFlags) run(cmd *cobra.Command, g *globals, namespace, name string) error {
	inquirer, err := g.inquirer()
	if err != nil {
		return err
	}
	config, err := g.config()
	if err != nil {
		return err
	}
	client, err := control.New(config)
	if err != nil {
		return err
	}
	ctx, cancel := f.context(cmd.Context())
	defer cancel()
	value, err := control.Retry(ctx, client, namespace, name, time.Now())
	if err != nil {
		return err
	}
	answer := report.Command{Namespace: namespace, Name: name, Text: "asked to try the wanted revision once more"}
	if err := f.print(cmd.OutOrStdout(), answer, false); err != nil || !f.wait {
		return err
	}
	return inquirer.Await(ctx, namespace, name, func(h v1.Heard) bool { return h.Retry == value })
}
