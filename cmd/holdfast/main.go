// Holdfast is a GitOps controller for Kubernetes that never takes away what a running workload still needs, and the
// command line for it.
//
// Each command has a file of its own that holds its flags and its help, and calls a package below internal for the rest.
package main

import (
	"errors"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(args []string) int {
	root := newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctrl.SetupSignalHandler())
	if err == nil {
		return 0
	}
	fmt.Fprintf(root.ErrOrStderr(), "holdfast: %v\n", err)
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
