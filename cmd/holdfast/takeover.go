package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/app"
)

const takeoverHelp = `Says what happens when holdfast takes over from Flux, before it does. Nothing is changed.

It looks whether Flux is still at work (its leader election lease, what it wrote lately, its Deployments), whether the definition of
Kustomizations is holdfast's, and at each object of each inventory: which are as Flux applied them, so that they stay as they are, and
what becomes of the others. Where a repository holds Flux itself, as flux bootstrap makes it, it prints the patch to make there.

With -A it looks in all namespaces, else in one, as holdfast run --watch-all-namespaces=false in that namespace would.

It ends with 0 if nothing is in the way, and with 1 if something has to be done first. The command needs the right to list Kustomizations and
leases and to get the definition; for more it needs to list Deployments and to get what is in the inventories. What it may not read is said.

With -o json or yaml: ready, findings[] (subject, message, do[]), rivals[], definition (holdfast, flux or absent), kustomizations[] (objects,
same, left), managers[], left[] (kustomization, object, why, then), patch, patchIn[], fluxInstances[], missingRights[].`

const takeoverExamples = `  # What would happen, in all namespaces
  holdfast takeover --check -A

  # Also in place of source-controller
  holdfast takeover --check -A --controllers=source,kustomization`

// notReadyError ends the checks with a finding.
type notReadyError struct{ error }

func (notReadyError) ExitCode() int { return 1 }

func newTakeoverCommand(g *globals) *cobra.Command {
	var view view
	var check, allNamespaces bool
	var controllers []string
	command := &cobra.Command{
		Use:     "takeover --check",
		Short:   "Say what happens when holdfast takes over from Flux",
		Long:    takeoverHelp,
		Example: takeoverExamples,
		Args:    cobra.NoArgs,
	}
	view.bind(command.Flags())
	command.Flags().BoolVar(&check, "check", false, "look, and change nothing; there is no other way to call it")
	command.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	command.Flags().StringSliceVar(&controllers, "controllers", []string{app.ControllerKustomization}, "the controllers that holdfast is going to run: source, kustomization")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOnly(check, view); err != nil {
			return err
		}
		inquirer, err := g.inquirer()
		if err != nil {
			return err
		}
		ctx, cancel := view.context(cmd.Context())
		defer cancel()
		answer, err := inquirer.Takeover(ctx, g.checkIn(allNamespaces), controllers, time.Now())
		if err != nil {
			return err
		}
		if err := view.print(cmd.OutOrStdout(), answer, allNamespaces); err != nil || answer.Ready {
			return err
		}
		return notReadyError{errors.New("not ready to take over: see what is to do above")}
	}
	return command
}

// checkOnly refuses a call without --check: these commands never act.
func checkOnly(check bool, v view) error {
	if !check {
		return usageError{errors.New("give --check: the command looks and changes nothing")}
	}
	return v.check()
}

// checkIn is the namespace to look in; empty for all.
func (g *globals) checkIn(all bool) string {
	if all {
		return ""
	}
	return g.lookIn()
}
