package install

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Exit codes of the program for errors of Apply.
const (
	exitFailed      = 2
	exitTimeRanOut  = 4
	exitUnavailable = 69
)

// Error is an error of Apply. It knows the exit code of the program.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the code that the program ends with.
func (e *Error) ExitCode() int { return e.Code }

// explain adds what a person can do, where the error itself doesn't say it.
func explain(config *rest.Config, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return &Error{Code: exitUnavailable, Err: fmt.Errorf("the cluster at %s does not accept the credentials: check the kubeconfig and its context: %w", config.Host, err)}
	case apierrors.IsForbidden(err):
		return &Error{Code: exitUnavailable, Err: fmt.Errorf("%w: installing needs cluster-admin rights; give `holdfast install --export` to someone who has them", err)}
	case errors.As(err, &status), errors.Is(err, errNotServed):
		return &Error{Code: exitFailed, Err: err}
	default:
		return &Error{Code: exitUnavailable, Err: fmt.Errorf("the cluster at %s can't be reached: check --kubeconfig, --context and the network: %w", config.Host, err)}
	}
}
