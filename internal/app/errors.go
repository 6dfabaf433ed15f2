package app

import "fmt"

// Exit codes of the program for errors of this package.
const (
	// ExitUsage: flags or environment ask for what can't be done.
	ExitUsage = 64
	// ExitUnavailable: the cluster can't be reached, a right is missing, or the CRDs are not there.
	ExitUnavailable = 69
)

// Error is an error that knows the exit code of the program.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the code that the program ends with.
func (e *Error) ExitCode() int { return e.Code }

func usageErrorf(format string, args ...any) error {
	return &Error{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

func unavailableErrorf(format string, args ...any) error {
	return &Error{Code: ExitUnavailable, Err: fmt.Errorf(format, args...)}
}
