package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

const waitHelp = `Waits until every Kustomization that is meant has decided about a commit, and prints a line for each change on the way. Meant are the NAMEs,
else all of the namespace, of those that follow --source, and have the labels of -l. Those that are suspended are listed and not waited for.

A commit may never be tried because a later one overtook it. Then the first revision that was tried and contains it decides; whether it does
is asked of the Git checkout in the current directory. Where that does not know, --or-newer takes any revision that is first tried after the
command began.

It ends with 0 if all are healthy, 2 if one failed or depends on one that did, 3 if one was rolled back, 4 if the time ran out, and 5 if there
is nothing to wait for. The command needs the right to list Kustomizations.

With -o json it prints an object per line: for each change namespace, name, verdict (Pending, Healthy, Failed, RolledBack, NotTried, Paused),
state, revision, why; and at the end commit and kustomizations[] of these.`

const waitExamples = `  # In a pipeline, after the push
  holdfast wait -A --source flux-system/fleet --commit "$(git rev-parse HEAD)" --timeout 10m

  # One Kustomization
  holdfast wait shop --commit 8be41a7`

// commitPattern is what a commit looks like; the beginning is enough.
var commitPattern = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// waitFlags are the flags of `wait`.
type waitFlags struct {
	output, commit, source, selector string
	timeout                          time.Duration
	allNamespaces, orNewer           bool
}

func newWaitCommand(g *globals) *cobra.Command {
	f := &waitFlags{}
	command := &cobra.Command{
		Use:     "wait [NAME...] --commit SHA",
		Short:   "Wait until a commit is healthy or has failed",
		Long:    waitHelp,
		Example: waitExamples,
	}
	flags := command.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "json for an object per line")
	flags.DurationVar(&f.timeout, "timeout", waitTimeout, "how long to wait")
	flags.StringVar(&f.commit, "commit", "", "the commit, whole or at least 7 characters of it")
	flags.BoolVar(&f.orNewer, "or-newer", false, "any revision that is first tried after the command began will do")
	flags.StringVar(&f.source, "source", "", "only what follows this source, NAME or NAMESPACE/NAME")
	flags.StringVarP(&f.selector, "selector", "l", "", "only what has these labels")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		wait, err := f.about(g, args)
		if err != nil {
			return err
		}
		c, err := g.connect()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
		defer cancel()
		look, err := c.AwaitCommit(ctx, wait, func(k report.WaitKustomization) error { return f.print(cmd, k) })
		if len(look.Kustomizations) == 0 {
			return err
		}
		return errors.Join(err, f.print(cmd, look))
	}
	return command
}

// about reads the flags and arguments.
func (f *waitFlags) about(g *globals, args []string) (inquiry.Wait, error) {
	w := inquiry.Wait{Commit: f.commit, Namespace: g.lookIn()}
	selector, err := labels.Parse(f.selector)
	switch {
	case f.output != "" && f.output != "json":
		return w, usageError{fmt.Errorf("there is no output %q: -o takes json", f.output)}
	case !commitPattern.MatchString(f.commit):
		return w, usageError{fmt.Errorf("--commit is %q: give at least 7 characters of a commit's hash", f.commit)}
	case err != nil:
		return w, usageError{fmt.Errorf("--selector: %w", err)}
	}
	if err := oneOrAll(args, f.allNamespaces); err != nil {
		return w, err
	}
	for _, arg := range args {
		namespace, name := kustomizationName(arg, w.Namespace)
		w.Names = append(w.Names, client.ObjectKey{Namespace: namespace, Name: name})
	}
	if f.source != "" {
		namespace, name := kustomizationName(f.source, w.Namespace)
		w.Source = namespace + "/" + name
	}
	if f.allNamespaces {
		w.Namespace = ""
	}
	w.Labels, w.Contains, w.OrNewer = selector, contains(f.commit), f.orNewer
	return w, nil
}

// print prints a line of progress, or the end.
func (f *waitFlags) print(cmd *cobra.Command, a answer) error {
	if f.output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(a)
	}
	return a.WriteText(cmd.OutOrStdout(), report.TextOptions{Now: time.Now()})
}

// contains tells whether a revision is the commit, or contains it by what the Git checkout in the current directory knows. What was asked
// once is not asked again.
func contains(commit string) report.Contains {
	known := map[string]bool{}
	return func(revision string) bool {
		hash := revision[strings.LastIndex(revision, ":")+1:]
		if strings.HasPrefix(hash, commit) {
			return true
		}
		if !commitPattern.MatchString(hash) {
			return false
		}
		if _, asked := known[hash]; !asked {
			known[hash] = exec.Command("git", "merge-base", "--is-ancestor", commit, hash).Run() == nil
		}
		return known[hash]
	}
}
