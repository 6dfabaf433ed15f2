package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/control"
	"github.com/holdfast-gitops/holdfast/internal/inquiry"
)

// waitTimeout is how long --wait waits unless --timeout says otherwise.
const waitTimeout = 10 * time.Minute

// cluster is what a command reads with, and what it writes with.
type cluster struct {
	*inquiry.Inquirer
	client client.Client
}

// connect connects to the cluster that the flags name. Nothing is asked yet.
func (g *globals) connect() (*cluster, error) {
	config, err := g.config()
	if err != nil {
		return nil, err
	}
	inquirer, err := inquiry.New(config)
	if err != nil {
		return nil, err
	}
	writer, err := control.New(config)
	if err != nil {
		return nil, err
	}
	return &cluster{Inquirer: inquirer, client: writer}, nil
}

// question is one call of a command: what it talks to, and the Kustomization that its first argument names.
type question struct {
	*cluster
	namespace, name string
}

// ask answers a question: it connects, reads within the time that the flags allow, and prints. An answer may have an error of its own
// besides what it prints.
func (g *globals) ask(cmd *cobra.Command, v *view, args []string, namespaces bool, read func(context.Context, question) (answer, error)) error {
	if err := v.check(); err != nil {
		return err
	}
	c, err := g.connect()
	if err != nil {
		return err
	}
	ctx, cancel := v.context(cmd.Context())
	defer cancel()
	q := question{cluster: c, namespace: g.lookIn()}
	if len(args) > 0 {
		q.namespace, q.name = kustomizationName(args[0], q.namespace)
	}
	a, err := read(ctx, q)
	if err != nil || a == nil {
		return err
	}
	if err := v.print(cmd.OutOrStdout(), a, namespaces); err != nil {
		return err
	}
	if partial, ok := a.(interface{ Err() error }); ok {
		return partial.Err()
	}
	return nil
}

// waiting are the flags of a command that asks the controller for something, and may wait for what becomes of it.
type waiting struct {
	view
	wait bool
}

func (w *waiting) bind(cmd *cobra.Command, until string) {
	w.view.bind(cmd.Flags())
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until "+until+"; --timeout is 10m then")
}

// heard tells whether the controller has taken up what was asked for.
type heard func(*v1.Kustomization) bool

// order asks for something, says so, and waits for the outcome if the flags say so. Without a heard there is nothing to wait for.
func (g *globals) order(cmd *cobra.Command, w *waiting, args []string, ask func(context.Context, question) (answer, heard, error)) error {
	if w.wait && !cmd.Flags().Changed("timeout") {
		w.timeout = waitTimeout
	}
	var taken heard
	var q question
	ctx, cancel := w.context(cmd.Context())
	defer cancel()
	err := g.ask(cmd, &w.view, args, false, func(_ context.Context, asked question) (a answer, err error) {
		q = asked
		a, taken, err = ask(ctx, asked)
		return a, err
	})
	if err != nil || !w.wait || taken == nil {
		return err
	}
	return q.Await(ctx, q.namespace, q.name, taken)
}

// in is the namespace that is looked in; empty for all.
func (q question) in(all bool) string {
	if all {
		return ""
	}
	return q.namespace
}

// oneOrAll refuses a NAME together with --all-namespaces.
func oneOrAll(args []string, all bool) error {
	if all && len(args) > 0 {
		return usageError{errors.New("a NAME and --all-namespaces exclude each other: give --namespace with a NAME")}
	}
	return nil
}

// heardOf are the commands that the controller took up last.
func heardOf(ks *v1.Kustomization) v1.Heard {
	if r := ks.Status.Rollout; r != nil && r.Heard != nil {
		return *r.Heard
	}
	return v1.Heard{}
}
