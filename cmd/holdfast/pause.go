package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

const pauseHelp = `Stops a Kustomization for a time: nothing of it is applied or pruned, as with spec.suspend, which is not touched. It writes the
annotation holdfast.dev/pause with the reason, the person and the end, which holdfast status shows. It ends by itself; holdfast
release ends it before.

What is deleted while it is paused leaves its objects on the cluster, as with spec.suspend. A rollback by a person is carried out all the
same. Other Kustomizations of the source still wait for it before they prune what it may have: it is going to go on. Flux does not know
of it: holdfast handback --check tells.

With -o json or yaml: namespace, name, reason, by, at, until, suspended. The command needs the right to get and patch the Kustomization.`

const pauseExamples = `  # For the weekend
  holdfast pause shop --reason "year-end freeze" --for 60h

  # Until a time
  holdfast pause shop --reason "INC-57" --until 2026-12-24T12:00:00Z`

// pauseFlags are the flags of `pause`.
type pauseFlags struct {
	view
	reason, until string
	length        time.Duration
}

func newPauseCommand(g *globals) *cobra.Command {
	f := &pauseFlags{}
	command := &cobra.Command{
		Use:     "pause NAME",
		Short:   "Stop a Kustomization for a time, with a reason",
		Long:    pauseHelp,
		Example: pauseExamples,
		Args:    cobra.ExactArgs(1),
	}
	flags := command.Flags()
	f.bind(flags)
	flags.StringVar(&f.reason, "reason", "", "why, for those who see it (required)")
	flags.DurationVar(&f.length, "for", 0, "how long, such as 14h")
	flags.StringVar(&f.until, "until", "", "until when, such as 2026-12-24T12:00:00Z")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		pause, err := f.pause(time.Now())
		if err != nil {
			return err
		}
		return g.ask(cmd, &f.view, args, false, func(ctx context.Context, q question) (answer, error) {
			return control.Pause(ctx, q.client, q.namespace, q.name, pause)
		})
	}
	return command
}

// pause is what the flags ask for.
func (f *pauseFlags) pause(now time.Time) (policy.Pause, error) {
	now = now.UTC().Truncate(time.Second)
	p := policy.Pause{Reason: f.reason, By: person(), At: now, Until: now.Add(f.length)}
	switch {
	case f.reason == "":
		return p, usageError{errors.New("give a --reason: whoever finds it paused wants to know")}
	case (f.length != 0) == (f.until != ""):
		return p, usageError{errors.New("give either --for or --until; to stop it without an end: holdfast suspend")}
	case f.until != "":
		var err error
		if p.Until, err = time.Parse(time.RFC3339, f.until); err != nil {
			return p, usageError{fmt.Errorf("--until is %q: want a time such as 2026-12-24T12:00:00Z", f.until)}
		}
	}
	if !p.Until.After(now) {
		return p, usageError{errors.New("the end has to be later than now")}
	}
	return p, nil
}
