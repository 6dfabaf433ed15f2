package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const reconcileHelp = `Asks the controller to look at a Kustomization now, instead of at its next interval: everything is applied again, and what somebody
changed or deleted by hand comes back. It writes the annotation reconcile.fluxcd.io/requestedAt, as flux reconcile does.

With --with-source its source is fetched first, and the command waits until that is done. A revision that failed is not tried once more by
this: holdfast retry does that.

With --wait: 0 healthy, 2 failed, 3 rolled back, 4 the time ran out. It ends with 5 if the Kustomization or its source is suspended. The
command needs the right to get and patch the Kustomization, and with --with-source its source.`

const reconcileExamples = `  # Fetch the source and apply what it offers, and wait for the outcome
  holdfast reconcile shop --with-source --wait

  # Only correct what was changed by hand
  holdfast reconcile shop`

// reconcileFlags are the flags of `reconcile`.
type reconcileFlags struct {
	waiting
	withSource bool
}

func newReconcileCommand(g *globals) *cobra.Command {
	f := &reconcileFlags{}
	command := &cobra.Command{
		Use:     "reconcile NAME",
		Short:   "Ask the controller to look at a Kustomization now",
		Long:    reconcileHelp,
		Example: reconcileExamples,
		Args:    cobra.ExactArgs(1),
	}
	f.bind(command, "it is healthy or has failed")
	command.Flags().BoolVar(&f.withSource, "with-source", false, "fetch its source first, and wait for that; --timeout is 10m then")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if f.withSource && !cmd.Flags().Changed("timeout") {
			f.timeout = waitTimeout
		}
		return g.order(cmd, &f.waiting, args, f.ask)
	}
	return command
}

func (f *reconcileFlags) ask(ctx context.Context, q question) (answer, heard, error) {
	text := "asked to look at it now"
	if f.withSource {
		source, request, err := control.RefreshSource(ctx, q.client, q.namespace, q.name, time.Now())
		if err != nil {
			return nil, nil, err
		}
		revision, err := q.AwaitSource(ctx, source, request)
		if err != nil {
			return nil, nil, err
		}
		text += "; " + source.GetKind() + " " + source.GetNamespace() + "/" + source.GetName() + " offers " + revision
	}
	value, err := control.Reconcile(ctx, q.client, q.namespace, q.name, time.Now())
	return report.Command{Namespace: q.namespace, Name: q.name, Text: text}, handled(value), err
}

// handled tells whether the controller has taken up a request to look now.
func handled(value string) heard {
	return func(ks *v1.Kustomization) bool { return ks.Status.LastHandledReconcileAt == value }
}
