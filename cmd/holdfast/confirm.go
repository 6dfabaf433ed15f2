package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/control"
)

const confirmHelp = `Shows the deletion that waits for a person, or allows exactly that one. A deletion waits when it is larger than maxPrune,
when the path has lost its manifests, when the objects left the source while spec.prune was false, or when an object is
marked holdfast.dev/prune: Confirm.

--plan prints the objects and a digest over their ids, UIDs and times. --expect allows the deletion of exactly these: it writes
the annotation holdfast.dev/confirm-prune, and refuses if another set waits by now. What leaves the source later is not
covered by it.

--expect ends with 2 if nothing waits, or something else than was expected. The command needs the right to get, and for --expect to patch,
the Kustomization.`

const confirmExamples = `  # What would be deleted?
  holdfast confirm reports --plan

  # Delete exactly that
  holdfast confirm reports --expect 3f9c1e0d5b7a2c44`

// confirmFlags are the flags of `confirm`.
type confirmFlags struct {
	view
	plan   bool
	expect string
}

func newConfirmCommand(g *globals) *cobra.Command {
	f := &confirmFlags{}
	command := &cobra.Command{
		Use:     "confirm NAME (--plan | --expect DIGEST)",
		Short:   "Show the deletion that waits for a person, or allow exactly that one",
		Long:    confirmHelp,
		Example: confirmExamples,
		Args:    cobra.ExactArgs(1),
	}
	f.bind(command.Flags())
	command.Flags().BoolVar(&f.plan, "plan", false, "print what would be deleted, and the digest of it")
	command.Flags().StringVar(&f.expect, "expect", "", "allow the deletion with this digest")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if f.plan == (f.expect != "") {
			return usageError{errors.New("give either --plan to see what waits, or --expect DIGEST to allow it")}
		}
		return g.ask(cmd, &f.view, args, true, f.pending)
	}
	return command
}

// pending reads what waits, and allows it if it is what was expected.
func (f *confirmFlags) pending(ctx context.Context, q question) (answer, error) {
	a, err := q.Confirmation(ctx, q.namespace, q.name)
	if err != nil || f.plan {
		return a, err
	}
	return control.Confirm(ctx, q.client, q.namespace, q.name, f.expect)
}
