package main

import (
	"context"

	"github.com/spf13/cobra"
)

const whyHelp = `Answers for an object, as KIND/NAME: which Kustomization manages it, why it is kept from pruning, who uses it, and until
when. The reason is the one that the controller decided by, as status.rollout.retained records it.

Answers for a Kustomization, as NAME, ks/NAME or NAMESPACE/NAME: what fails, down to the pods; what is still safe; who
waits for it; and what to do next.

For a pod it follows what made it up to the Kustomization; for a GitRepository it says why it can't be fetched.

KIND is a kind, a plural or a short name, such as ConfigMap or cm, with a group if need be: deployments.apps.

With -o json or yaml: for an object standing (Kept, Wanted, Made, Foreign, LeftBehind, Unmanaged, Unclear),
retained, kustomization, usedBy[], makers[]; for a Kustomization causes[], safe[], gone[], absent[], retained[], shared[],
sourceTrouble, chain[], circle[], waitingOnThis[], next[].
Ends with 2 if there is no such object, and with 64 if there is no such kind.`

const whyExamples = `  # Why is this old ConfigMap still there?
  holdfast why ConfigMap/shop-config-9k2f -n shop

  # Which Kustomization is this pod from, and what is wrong with it?
  holdfast why pod/shop-6d4c-x7k2p -n shop

  # What keeps this Kustomization from being healthy?
  holdfast why shop
  holdfast why ks/shop -n flux-system`

func newWhyCommand(g *globals) *cobra.Command {
	var view view
	command := &cobra.Command{
		Use:     "why NAME | KIND/NAME",
		Short:   "Say why a Kustomization is not healthy, or why an object is there",
		Long:    whyHelp,
		Example: whyExamples,
		Args:    cobra.ExactArgs(1),
	}
	view.bind(command.Flags())
	command.RunE = func(cmd *cobra.Command, args []string) error {
		return g.ask(cmd, &view, nil, true, func(ctx context.Context, q question) (answer, error) {
			return q.Why(ctx, args[0], q.namespace)
		})
	}
	return command
}
