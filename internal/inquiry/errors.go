package inquiry

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast-gitops/holdfast/internal/app"
)

// kustomizationResource is the resource whose rights the command line needs.
const kustomizationResource = "kustomizations.kustomize.toolkit.fluxcd.io"

// exitNotFound is the exit code for something that does not exist.
const exitNotFound = 2

func notFoundf(format string, args ...any) error {
	return &app.Error{Code: exitNotFound, Err: fmt.Errorf(format, args...)}
}

func usagef(format string, args ...any) error {
	return &app.Error{Code: app.ExitUsage, Err: fmt.Errorf(format, args...)}
}

// IsNotFound tells whether an error says that what was asked for does not exist.
func IsNotFound(err error) bool {
	var coded *app.Error
	return errors.As(err, &coded) && coded.Code == exitNotFound
}

// failed says what could not be done and what to do about it. Without an answer of the API server the cluster counts as
// not reachable.
func failed(what, resource string, err error) error {
	advice := ""
	switch {
	case apierrors.IsForbidden(err):
		advice = "; the right is missing: ask for the verbs get and list on " + resource
	case apierrors.IsUnauthorized(err):
		advice = "; the API server does not accept these credentials: log in again, or give another --context"
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		advice = "; the cluster does not serve " + resource + ": `holdfast install --crds-only` installs it"
	case errors.Is(err, context.DeadlineExceeded):
		advice = "; no answer in time: check the connection, or give a longer --timeout"
	case !isAnswer(err):
		advice = "; the cluster can't be reached: check --kubeconfig and --context"
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return &app.Error{Code: app.ExitUnavailable, Err: fmt.Errorf("%s: %w%s", what, err, advice)}
}

// isAnswer tells whether an error came from the API server.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// Failed explains an error about Kustomizations for a person, with the exit code that goes with it.
func Failed(what string, err error) error { return failed(what, kustomizationResource, err) }

// lacking says which right is missing for more, or what else kept it from being read.
func lacking(what string, err error, consequence string) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("the right to %s is missing: %s", what, consequence)
	}
	return fmt.Sprintf("%s: %v: %s", what, err, consequence)
}
