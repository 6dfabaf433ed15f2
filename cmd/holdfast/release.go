package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const releaseHelp = `Shows what a Kustomization keeps that left the source while spec.prune was false, or lets go of exactly that. What is let
go of stays on the cluster for good: its owner labels are removed, its entry leaves the inventory, and nothing else about it
changes. In Flux, turning pruning off is a way to leave objects behind on purpose; this says that it was meant so.

--plan prints the objects and a digest over their ids and times. --expect lets go of exactly these: it writes the annotation
holdfast.dev/release-kept, and refuses if it is another set by now. What leaves the source later is not covered by it.

To delete them instead, set spec.prune to true and see: holdfast confirm NAME --plan

--expect ends with 2 if there is nothing to let go of, or something else than was expected. The command needs the right to get, and
for --expect to patch, the Kustomization.`

const releaseExamples = `  # What was left behind?
  holdfast release reports --plan

  # Let go of exactly that
  holdfast release reports --expect 3f9c1e0d5b7a2c44`

// releaseFlags are the flags of `release`.
type releaseFlags struct {
	view
	plan   bool
	expect string
}

func newReleaseCommand(g *globals) *cobra.Command {
	f := &releaseFlags{}
	command := &cobra.Command{
		Use:     "release NAME (--plan | --expect DIGEST)",
		Short:   "Show what was left behind while pruning was off, or let go of exactly that",
		Long:    releaseHelp,
		Example: releaseExamples,
		Args:    cobra.ExactArgs(1),
	}
	f.bind(command.Flags())
	command.Flags().BoolVar(&f.plan, "plan", false, "print what would be let go of, and the digest of it")
	command.Flags().StringVar(&f.expect, "expect", "", "let go of the objects with this digest")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.check() != nil:
			return f.check()
		case f.plan == (f.expect != ""):
			return usageError{errors.New("give either --plan to see what is kept, or --expect DIGEST to let go of it")}
		}
		ctx, cancel := f.context(cmd.Context())
		defer cancel()
		namespace, name := kustomizationName(args[0], g.lookIn())
		answer, err := f.answer(ctx, g, namespace, name)
		if err != nil {
			return err
		}
		return f.print(cmd.OutOrStdout(), answer, true)
	}
	return command
}

// answer reads what is kept, and lets go of it if it is what was expected.
func (f *releaseFlags) answer(ctx context.Context, g *globals, namespace, name string) (report.Release, error) {
	inquirer, err := g.inquirer()
	if err != nil {
		return report.Release{}, err
	}
	answer, err := inquirer.Release(ctx, namespace, name)
	if err != nil || f.plan {
		return answer, err
	}
	config, err := g.config()
	if err != nil {
		return report.Release{}, err
	}
	client, err := control.New(config)
	if err != nil {
		return report.Release{}, err
	}
	return control.Release(ctx, client, namespace, name, f.expect)
}
