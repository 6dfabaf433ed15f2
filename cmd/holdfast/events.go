package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/report"
)

const eventsHelp = `Lists the events about Kustomizations and sources, the newest last; with a NAME those about that Kustomization and its source. With
--watch it goes on and prints new ones until it is interrupted.

Kubernetes keeps events for an hour unless it is told otherwise. What was rolled out before that is in holdfast history.

The command needs the right to list events, and with a NAME to get the Kustomization.

With -o json or yaml: events[], each with last, first, count, type, reason, object, revision, message.`

const eventsExamples = `  holdfast events shop
  holdfast events -A --warnings
  holdfast events shop --watch -o wide`

// lookAgain is the time between two looks of a command that goes on.
const lookAgain = 2 * time.Second

// eventsFlags are the flags of `events`.
type eventsFlags struct {
	view
	allNamespaces, warnings, watch bool
	// looked is true from the second look on.
	looked bool
}

func newEventsCommand(g *globals) *cobra.Command {
	f := &eventsFlags{}
	command := &cobra.Command{
		Use:     "events [NAME]",
		Short:   "List what happened to Kustomizations and sources",
		Long:    eventsHelp,
		Example: eventsExamples,
		Args:    cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	f.bind(flags)
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	flags.BoolVar(&f.warnings, "warnings", false, "leave out what is normal")
	flags.BoolVarP(&f.watch, "watch", "w", false, "go on and print new ones")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOrAll(args, f.allNamespaces); err != nil {
			return err
		}
		told := map[report.Event]bool{}
		look := func() error { return g.ask(cmd, &f.view, args, f.allNamespaces, f.read(told)) }
		if !f.watch {
			return look()
		}
		return repeat(cmd.Context(), look)
	}
	return command
}

// read reads the events that were not told yet.
func (f *eventsFlags) read(told map[report.Event]bool) func(context.Context, question) (answer, error) {
	return func(ctx context.Context, q question) (answer, error) {
		list, err := q.Events(ctx, q.in(f.allNamespaces), q.name, f.warnings)
		if !f.looked || err != nil {
			f.looked = true
			return list.Since(told), err
		}
		f.noHeaders = true // they stand above already
		if list = list.Since(told); len(list.Events) == 0 {
			return nil, nil
		}
		return list, nil
	}
}

// repeat does something again and again until it fails or the person has enough, which is no error.
func repeat(ctx context.Context, look func() error) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		err := look()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
