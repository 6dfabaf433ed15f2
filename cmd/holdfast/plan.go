package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const planHelp = `Says what the controller would do, by the controller's own steps: the build with decryption and variables, a server-side dry-run
of every object, and the decisions about what the build lacks. It writes nothing.

It looks at what the source offers now; with --path at a directory on this machine, before anything is pushed; with --revision at
another revision of the source (a whole commit, a branch, or a name such as refs/tags/v1), which is read from Git with the Secret of
the source; with --file at a Kustomization in a file, which need not exist yet. --path takes the checkout that the directory is in as
the source, and counts what is not committed.

CHANGED names the fields, --diff their values; values of Secrets are never shown. A generated ConfigMap or Secret that takes the
place of another one is one line. What the build lacks is pruned, kept (why, by whom, until when), waits for a person, or moves to
another Kustomization. All that would be refused is told at once.

It works as the ServiceAccount of the Kustomization if you may impersonate it, else as you. Where you may not dry-run (the right to
patch), it compares the manifest with the object instead; what it could not see is said at the end. It takes the controller to run
without flags; give those that matter behind -- as to holdfast run.

Exit codes: 0 nothing changes, 1 something does, 2 something is refused or set off --fail-on, 64 wrong usage, 69 the cluster can't be
reached or a right is missing.

With -o json or yaml: namespace, name, runs, state, to, refused, objects[] (id, action, before, fields[], when, reason, users[],
until, why, pods, already, compared), unchanged, notes[], unseen[]. Actions: create, change, rename, replace, refuse, unclear, skip,
prune, keep, confirm, move, forget.`

const planExamples = `  # What would a push of this checkout change?
  holdfast plan shop --path ./apps/shop

  # As a comment on a pull request, failing if something would be pruned or replaced
  holdfast plan shop --path ./apps/shop -o markdown --fail-on prune,replace

  # A branch; a Kustomization that does not exist yet
  holdfast plan shop --revision feature-x --diff
  holdfast plan --file shop.yaml

  # With flags of the controller
  holdfast plan shop -- --no-remote-bases=true`

// planFlags are the flags of `plan`.
type planFlags struct {
	view
	path, revision, file string
	failOn               []string
	diff                 bool
}

// planFinding ends `plan` with an exit code.
type planFinding struct {
	error
	code int
}

func (f planFinding) ExitCode() int { return f.code }

func newPlanCommand(g *globals) *cobra.Command {
	f := &planFlags{}
	command := &cobra.Command{
		Use:     "plan [NAME] [-- FLAGS OF THE CONTROLLER]",
		Short:   "Say what a change would do, before it is pushed",
		Long:    planHelp,
		Example: planExamples,
	}
	flags := command.Flags()
	f.bind(flags)
	flags.Lookup("output").Usage = "table, markdown, json, yaml, or wide for text in full"
	flags.StringVar(&f.path, "path", "", "a directory that stands in for spec.path of the Kustomization")
	flags.StringVar(&f.revision, "revision", "", "another revision of the source: a whole commit, a branch, or a full reference")
	flags.StringVar(&f.file, "file", "", "a file with the Kustomization, instead of the one on the cluster")
	flags.BoolVarP(&f.diff, "diff", "d", false, "show the values of the fields that change")
	flags.StringSliceVar(&f.failOn, "fail-on", nil, "end with 2 if there is any of: prune, replace, mass-prune")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		names, more := args, []string(nil)
		if at := cmd.ArgsLenAtDash(); at >= 0 {
			names, more = args[:at], args[at:]
		}
		question, err := f.question(g, names, more)
		if err != nil {
			return err
		}
		return f.run(cmd, g, question)
	}
	return command
}

// question checks the command line.
func (f *planFlags) question(g *globals, names, controllerFlags []string) (q inquiry.PlanQuestion, err error) {
	q = inquiry.PlanQuestion{Namespace: g.lookIn(), Path: f.path, Revision: f.revision, File: f.file}
	switch {
	case len(names) > 1:
		return q, usageError{fmt.Errorf("accepts at most 1 arg, received %d", len(names))}
	case len(names) == 0 && f.file == "":
		return q, usageError{fmt.Errorf("give a NAME, or --file with a Kustomization")}
	case f.path != "" && f.revision != "":
		return q, usageError{fmt.Errorf("--path and --revision exclude each other")}
	case len(names) == 1:
		q.Namespace, q.Name = kustomizationName(names[0], q.Namespace)
	}
	for _, alarm := range f.failOn {
		if !slices.Contains([]report.PlanAlarm{report.AlarmPrune, report.AlarmReplace, report.AlarmMassPrune}, report.PlanAlarm(alarm)) {
			return q, usageError{fmt.Errorf("there is no --fail-on %q: it takes prune, replace and mass-prune", alarm)}
		}
	}
	if !slices.Contains([]string{"table", "markdown"}, f.output) {
		if err := f.check(); err != nil {
			return q, usageError{fmt.Errorf("there is no output %q: -o takes table, markdown, json, yaml or wide", f.output)}
		}
	}
	if q.Options, err = app.OptionsOf(controllerFlags); err != nil {
		return q, usageError{fmt.Errorf("behind --: %w", err)}
	}
	q.Options.Kustomization.RemoteBuilds, err = remoteBuilds()
	return q, err
}

func (f *planFlags) run(cmd *cobra.Command, g *globals, question inquiry.PlanQuestion) error {
	inquirer, err := g.inquirer()
	if err != nil {
		return err
	}
	ctx, cancel := f.context(cmd.Context())
	defer cancel()
	plan, err := inquirer.Plan(ctx, question)
	if err != nil {
		return err
	}
	plan.Diff = f.diff
	if err := f.write(cmd.OutOrStdout(), plan); err != nil {
		return err
	}
	return f.finding(plan)
}

func (f *planFlags) write(out io.Writer, plan report.Plan) error {
	switch f.output {
	case "markdown":
		return plan.WriteMarkdown(out)
	case "table":
		f.output = ""
	}
	return f.print(out, plan, false)
}

// finding is what the exit code says of a plan.
func (f *planFlags) finding(plan report.Plan) error {
	wanted := make([]report.PlanAlarm, 0, len(f.failOn))
	for _, alarm := range f.failOn {
		wanted = append(wanted, report.PlanAlarm(alarm))
	}
	switch alarms := plan.Alarms(wanted); {
	case plan.Fails():
		return planFinding{fmt.Errorf("%s/%s: something would be refused", plan.Namespace, plan.Name), exitFailed}
	case len(alarms) > 0:
		return planFinding{fmt.Errorf("%s/%s: --fail-on: %s", plan.Namespace, plan.Name, strings.Join(alarms, ", ")), exitFailed}
	case plan.Changes():
		return planFinding{fmt.Errorf("%s/%s: there are changes", plan.Namespace, plan.Name), 1}
	}
	return nil
}
