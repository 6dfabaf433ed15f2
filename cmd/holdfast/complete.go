package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout is how long a person who pressed the tab key waits for the cluster at most.
const completionTimeout = 3 * time.Second

// completesNames are the commands whose arguments are Kustomizations, and how many of these they take; none stands for any number.
var completesNames = map[string]int{
	"confirm": 1, "diff": 1, "events": 1, "history": 1, "kept": 1, "reconcile": 1, "release": 1, "resume": 1, "retry": 1, "rollback": 1,
	"status": 1, "suspend": 1, "tree": 1, "wait": 0, "why": 1,
}

// completeNames offers the names of the Kustomizations in the namespace that the flags name. Without an answer of the cluster it offers
// nothing: a message would get into the command line.
func (g *globals) completeNames(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := g.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		names, err := c.Names(ctx, g.lookIn())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, begun) || slices.Contains(args, name)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNamespaces offers the namespaces that have Kustomizations.
func (g *globals) completeNamespaces(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	c, err := g.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	namespaces, err := c.Namespaces(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(namespaces, func(name string) bool { return !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
}

// setUpCompletion gives the commands their live names.
func setUpCompletion(root *cobra.Command, g *globals) error {
	for _, command := range root.Commands() {
		if most, ok := completesNames[command.Name()]; ok {
			command.ValidArgsFunction = g.completeNames(most)
		}
	}
	return root.RegisterFlagCompletionFunc("namespace", g.completeNamespaces)
}

// pluginName is the name under which kubectl finds this program, as `kubectl holdfast`.
const pluginName = "kubectl-holdfast"

// displayName is how the person called this program, for the help.
func displayName(program string) string {
	if strings.TrimSuffix(filepath.Base(program), ".exe") == pluginName {
		return "kubectl holdfast"
	}
	return "holdfast"
}

func calledAs() string { return displayName(os.Args[0]) }
