package main

import (
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

const rollbackHelp = `Brings a stored healthy revision back and stays there: it shows what changes, asks, and writes the annotation holdfast.dev/rollback,
on which the controller acts. Without --to it is the newest stored revision that is not the one wanted now.

Git is not changed. Its revision is skipped until it renders something else (--until next), until holdfast release (--until
released), or for a time (--until 2h). Whoever depends on the Kustomization goes on. Jobs are not run again; claims and
CustomResourceDefinitions stay as they are.

With --wait: 0 healthy, 2 failed, 4 the time ran out. The command needs the right to get and patch the Kustomization, and to
show what changes, to get the Secrets beside it in which revisions are stored.`

const rollbackExamples = `  # What would go back?
  holdfast rollback shop --plan

  # Back to the last healthy revision, until something else is pushed
  holdfast rollback shop --reason "INC-57 empty carts"

  # Back to a commit, for two hours, without a question
  holdfast rollback shop --to 1f0c9d2 --until 2h -y --wait`

// rollbackFlags are the flags of `rollback`.
type rollbackFlags struct {
	waiting
	to, until, reason string
	plan, yes         bool
}

func newRollbackCommand(g *globals) *cobra.Command {
	f := &rollbackFlags{}
	command := &cobra.Command{
		Use:     "rollback NAME",
		Short:   "Bring a stored healthy revision back and stay there",
		Long:    rollbackHelp,
		Example: rollbackExamples,
		Args:    cobra.ExactArgs(1),
	}
	flags := command.Flags()
	f.bind(command, "it is healthy or has failed")
	flags.StringVar(&f.to, "to", "", "the revision: its number in `holdfast history`, commit or digest; otherwise the last healthy one")
	flags.StringVar(&f.until, "until", plan.UntilNext, "what ends it: 'next', 'released' or a duration such as 2h")
	flags.StringVar(&f.reason, "reason", "", "why, for those who see it")
	flags.BoolVar(&f.plan, "plan", false, "only show what would change")
	flags.BoolVarP(&f.yes, "yes", "y", false, "don't ask")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if f.wait && !flags.Changed("timeout") {
			f.timeout = waitTimeout
		}
		until, err := untilWord(f.until, time.Now())
		if err != nil {
			return err
		}
		namespace, name := kustomizationName(args[0], g.lookIn())
		return f.run(cmd, g, namespace, name, until)
	}
	return command
}

func (f *rollbackFlags) run(cmd *cobra.Command, g *globals, namespace, name, until string) error {
	c, err := g.connect()
	if err != nil {
		return err
	}
	ctx, cancel := f.context(cmd.Context())
	defer cancel()
	answer, err := c.Rollback(ctx, namespace, name, f.to)
	if err != nil {
		return err
	}
	answer.Until = until
	if f.plan {
		return f.print(cmd.OutOrStdout(), answer, false)
	}
	if !f.yes {
		if err := confirmed(cmd, &f.view, answer, "Go back?", "to go back"); err != nil {
			return err
		}
	}
	value, err := control.Rollback(ctx, c.client, answer, control.RequestOf(answer, person(), f.reason, time.Now()))
	if err != nil {
		return err
	}
	answer.Asked = true
	if err := f.print(cmd.OutOrStdout(), answer, false); err != nil || !f.wait {
		return err
	}
	return c.Await(ctx, namespace, name, func(ks *v1.Kustomization) bool { return heardOf(ks).Rollback == value })
}

// refusedError is a no of the person.
type refusedError struct{ error }

// ExitCode is that of what was not done.
func (*refusedError) ExitCode() int { return control.ExitRefused }

// untilWord turns the flag into what the annotation says.
func untilWord(until string, now time.Time) (string, error) {
	if until == plan.UntilNext || until == plan.UntilReleased {
		return until, nil
	}
	d, err := time.ParseDuration(until)
	if err != nil || d <= 0 {
		return "", usageError{fmt.Errorf("--until is %q: want next, released or a duration such as 2h", until)}
	}
	return now.Add(d).UTC().Format(time.RFC3339), nil
}

// person is who runs the command, as this machine knows them. It is told, and proves nothing: what a person may do is decided by the
// rights of the credentials.
func person() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
