package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const suspendHelp = `Stops a Kustomization: nothing of it is applied or pruned, and what runs goes on running. It sets spec.suspend, as flux suspend does.
It has no end and says no reason: holdfast pause has both.

If another Kustomization applies this one out of Git, that is said, and whether it undoes the suspension. A Kustomization that is deleted
while it is suspended leaves its objects on the cluster.

With -o json or yaml: namespace, name, suspended, changed, parent, parentSets; with --all kustomizations[] of these. The command needs the
right to get and patch the Kustomization, and with --all to list.`

const suspendExamples = `  holdfast suspend shop

  # All of a namespace
  holdfast suspend --all -n team-a`

const resumeHelp = `Ends what holdfast suspend began: it takes spec.suspend away, and the controller takes up the revision of the source at once. It does not end
a pause: holdfast release does.

With --all it resumes every suspended Kustomization of the namespace. With --wait, for one: 0 healthy, 2 failed, 3 rolled back, 4 the time
ran out. The command needs the right to get and patch the Kustomization, and with --all to list.`

const resumeExamples = `  holdfast resume shop --wait

  # All that are suspended in a namespace
  holdfast resume --all -n team-a`

func newSuspendCommand(g *globals) *cobra.Command {
	var view view
	var all bool
	command := &cobra.Command{
		Use:     "suspend (NAME | --all)",
		Short:   "Stop a Kustomization until it is resumed",
		Long:    suspendHelp,
		Example: suspendExamples,
		Args:    cobra.MaximumNArgs(1),
	}
	view.bind(command.Flags())
	command.Flags().BoolVar(&all, "all", false, "every Kustomization of the namespace")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := nameOrAll(args, all); err != nil {
			return err
		}
		return g.ask(cmd, &view, args, false, func(ctx context.Context, q question) (answer, error) {
			if all {
				return q.setSuspended(ctx, true)
			}
			return control.Suspend(ctx, q.client, q.namespace, q.name, true)
		})
	}
	return command
}

func newResumeCommand(g *globals) *cobra.Command {
	w := &waiting{}
	var all bool
	command := &cobra.Command{
		Use:     "resume (NAME | --all)",
		Short:   "Go on with a suspended Kustomization",
		Long:    resumeHelp,
		Example: resumeExamples,
		Args:    cobra.MaximumNArgs(1),
	}
	w.bind(command, "it is healthy or has failed")
	command.Flags().BoolVar(&all, "all", false, "every suspended Kustomization of the namespace")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := nameOrAll(args, all); err != nil {
			return err
		}
		if all && w.wait {
			return usageError{errors.New("--wait is for one Kustomization: see holdfast wait for several")}
		}
		return g.order(cmd, w, args, func(ctx context.Context, q question) (answer, heard, error) {
			if all {
				a, err := q.setSuspended(ctx, false)
				return a, nil, err
			}
			return q.resume(ctx, w.wait)
		})
	}
	return command
}

// resume goes on with one Kustomization. To wait for the outcome it asks for a pass, in whose result there is a mark to look for.
func (q question) resume(ctx context.Context, wait bool) (answer, heard, error) {
	a, err := control.Suspend(ctx, q.client, q.namespace, q.name, false)
	if err != nil || !wait {
		return a, nil, err
	}
	value, err := control.Reconcile(ctx, q.client, q.namespace, q.name, time.Now())
	return a, handled(value), err
}

// setSuspended changes all Kustomizations of the namespace that are not so already. One that fails does not keep it from the others.
func (q question) setSuspended(ctx context.Context, suspend bool) (answer, error) {
	keys, err := q.Suspended(ctx, q.namespace, !suspend)
	out := report.Suspensions{Kustomizations: []report.Suspension{}, Where: report.Where(q.namespace), Sought: !suspend}
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		one, err := control.Suspend(ctx, q.client, key.Namespace, key.Name, suspend)
		if err != nil {
			out.Failed = append(out.Failed, err.Error())
			continue
		}
		out.Kustomizations = append(out.Kustomizations, one)
	}
	return out, nil
}

// nameOrAll wants either a NAME or --all.
func nameOrAll(args []string, all bool) error {
	if all == (len(args) > 0) {
		return usageError{errors.New("give either the NAME of a Kustomization or --all")}
	}
	return nil
}
