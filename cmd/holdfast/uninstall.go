package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-gitops/holdfast/internal/install"
)

const uninstallHelp = `Takes the controller and its rights out of the cluster, and nothing else: it shows what goes and what stays, asks, ends the controller and
waits until it has, and deletes what holdfast install made for it in the namespace of --namespace, else flux-system.

Everything that was deployed stays, and so do the Kustomizations, the sources, the CustomResourceDefinitions and the namespace. What has the
name of a part of the installation and not its labels is left. To delete what was deployed, too, delete the Kustomizations first, while
holdfast still runs. For Flux to take over: holdfast handback --check

It ends with 2 if the answer is no, and with 4 if the controller did not end in time. The command needs cluster-admin rights.

With -o json or yaml: namespace, deletes[], left[], kustomizations, deleting[], inGit, done.`

const uninstallExamples = `  # What would go, and what stays?
  holdfast uninstall --plan

  # Without a question
  holdfast uninstall -y`

// uninstallFlags are the flags of `uninstall`.
type uninstallFlags struct {
	view
	plan, yes bool
}

func newUninstallCommand(g *globals) *cobra.Command {
	f := &uninstallFlags{}
	command := &cobra.Command{
		Use:     "uninstall",
		Short:   "Take the controller away, and keep everything that it deployed",
		Long:    uninstallHelp,
		Example: uninstallExamples,
		Args:    cobra.NoArgs,
	}
	flags := command.Flags()
	f.bind(flags)
	flags.Lookup("timeout").DefValue = install.Wait.String()
	f.timeout = install.Wait
	flags.BoolVar(&f.plan, "plan", false, "only show what would go and what stays")
	flags.BoolVarP(&f.yes, "yes", "y", false, "don't ask")
	command.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd, g) }
	return command
}

func (f *uninstallFlags) run(cmd *cobra.Command, g *globals) error {
	if err := f.check(); err != nil {
		return err
	}
	config, err := g.config()
	if err != nil {
		return err
	}
	ctx, cancel := f.context(cmd.Context())
	defer cancel()
	removal, err := install.FindRemoval(ctx, config, g.namespace)
	if err != nil {
		return err
	}
	if !f.plan && !f.yes && len(removal.Deletes) > 0 {
		if err := confirmed(cmd, &f.view, removal.Uninstall, "Take holdfast away?", "to take it away"); err != nil {
			return err
		}
		// A person may have taken longer than a cluster may.
		ctx, cancel = f.context(cmd.Context())
		defer cancel()
	}
	if !f.plan {
		if err := removal.Remove(ctx); err != nil {
			return err
		}
	}
	return f.print(cmd.OutOrStdout(), removal.Uninstall, false)
}

// confirmed shows a plan and asks. Without a terminal nobody can answer, so that -y has to be given.
func confirmed(cmd *cobra.Command, v *view, plan answer, question, to string) error {
	if in, ok := cmd.InOrStdin().(*os.File); ok && !term.IsTerminal(int(in.Fd())) { //nolint:gosec // a descriptor is small
		return usageError{fmt.Errorf("there is no terminal to ask on: give --yes %s, or --plan to see what would change", to)}
	}
	if err := v.print(cmd.ErrOrStderr(), plan, false); err != nil {
		return err
	}
	if _, err := fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] "); err != nil {
		return err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w; nothing is written", err)
	}
	return &refusedError{errors.New("nothing is written")}
}
