package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const releaseHelp = `Lets go of what is held for a person.

Without --plan and --expect it ends a pause (holdfast pause): the annotation is taken away, and a pin stays. Where there is no pause it ends a pin (holdfast rollback), or the skip of a revision that was rolled back: the revision that Git
wants is taken again. It writes the annotation holdfast.dev/release. With --wait: 0 healthy, 2 failed, 3 rolled back, 4 the
time ran out.

--plan shows what the Kustomization keeps that left the source while spec.prune was false, with a digest over the ids and times of
these objects. --expect lets go of exactly these: it writes the annotation holdfast.dev/release-kept, and refuses if it is
another set by now. They stay on the cluster for good: their owner labels are removed, their entries leave the inventory, and nothing
else about them changes. In Flux, turning pruning off is a way to leave objects behind on purpose; this says that it was meant so. What
leaves the source later is not covered by it. To delete them instead, set spec.prune to true and see: holdfast confirm NAME --plan

It ends with 2 if there is nothing to let go of, or something else than was expected. The command needs the right to get, and
except for --plan to patch, the Kustomization.`

const releaseExamples = `  # End a pin: Git's revision goes out again
  holdfast release shop --wait

  # End a pause before its time
  holdfast release shop

  # What was left behind while pruning was off?
  holdfast release reports --plan

  # Let go of exactly that
  holdfast release reports --expect 3f9c1e0d5b7a2c44`

// releaseFlags are the flags of `release`.
type releaseFlags struct {
	waiting
	plan   bool
	expect string
}

func newReleaseCommand(g *globals) *cobra.Command {
	f := &releaseFlags{}
	command := &cobra.Command{
		Use:     "release NAME [--plan | --expect DIGEST]",
		Short:   "End a pause, a pin or a skip, or let go of what was left behind while pruning was off",
		Long:    releaseHelp,
		Example: releaseExamples,
		Args:    cobra.ExactArgs(1),
	}
	f.bind(command, "Git's revision is healthy or has failed")
	command.Flags().BoolVar(&f.plan, "plan", false, "print what would be let go of, and the digest of it")
	command.Flags().StringVar(&f.expect, "expect", "", "let go of the objects with this digest")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.plan && f.expect != "":
			return usageError{errors.New("give either --plan to see what is kept, or --expect DIGEST to let go of it")}
		case f.wait && (f.plan || f.expect != ""):
			return usageError{errors.New("--wait is for the end of a pin or a skip, without --plan and --expect")}
		case !f.plan && f.expect == "":
			return g.order(cmd, &f.waiting, args, unpin)
		}
		return g.ask(cmd, &f.view, args, true, f.kept)
	}
	return command
}

// kept reads what is kept, and lets go of it if it is what was expected.
func (f *releaseFlags) kept(ctx context.Context, q question) (answer, error) {
	a, err := q.Release(ctx, q.namespace, q.name)
	if err != nil || f.plan {
		return a, err
	}
	return control.Release(ctx, q.client, q.namespace, q.name, f.expect)
}

// unpin ends a pause, or else a pin or a skip.
func unpin(ctx context.Context, q question) (answer, heard, error) {
	if paused, err := control.EndPause(ctx, q.client, q.namespace, q.name, time.Now()); err != nil || paused {
		return q.unpaused(ctx, err)
	}
	value, err := control.Unpin(ctx, q.client, q.namespace, q.name, time.Now())
	return report.Command{Namespace: q.namespace, Name: q.name, Text: "asked to take the revision of the source again"},
		func(ks *v1.Kustomization) bool { return heardOf(ks).Release == value }, err
}

// unpaused is the answer after a pause was ended. Its outcome is that of the next pass, which is asked for: in its result there is a
// mark to look for.
func (q question) unpaused(ctx context.Context, err error) (answer, heard, error) {
	a := report.Command{Namespace: q.namespace, Name: q.name, Text: "the pause is ended: the revision of the source is taken up now"}
	if err != nil {
		return a, nil, err
	}
	value, err := control.Reconcile(ctx, q.client, q.namespace, q.name, time.Now())
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) && coded.ExitCode() == control.ExitCannotHappen {
		a.Text = "the pause is ended; it stays suspended: " + "holdfast resume " + q.name + " -n " + q.namespace
		return a, nil, nil
	}
	return a, handled(value), err
}
