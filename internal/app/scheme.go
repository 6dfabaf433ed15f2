package app

import (
	"errors"
	"fmt"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// NewScheme returns a scheme with every type that holdfast reads or writes by type: its own, Flux's sources, those of
// Kubernetes, and CRDs.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme),
		sourcev1.AddToScheme(scheme),
		v1.AddToScheme(scheme),
	)
	if err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	return scheme, nil
}
