// Holdfast is a GitOps controller for Kubernetes that never takes away what a running workload still needs, and the
// command line for it.
//
// Each command has a file of its own that holds its flags and its help, and calls a package below internal for the rest.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(run(ctrl.SetupSignalHandler(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(append([]string{}, args...))
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	// Standard error is the last resort: there is nowhere else to report that it can't be written.
	_, _ = fmt.Fprintf(stderr, "holdfast: %v\n", err)
	return exitCode(err)
}

// Exit codes that every command shares. A command that ends with another one returns an error with a method ExitCode.
const (
	exitFailed = 2
	exitUsage  = 64
)

// exitCode reads the exit code from an error.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitFailed
}

// usageError is a command line that can't be understood.
type usageError struct{ error }

func (usageError) ExitCode() int { return exitUsage }

func (e usageError) Unwrap() error { return e.error }
