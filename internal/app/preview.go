package app

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/holdfast-gitops/holdfast/internal/controller/kustomization"
)

// NewPreviewer returns what foresees the controller's work, with the rights of a configuration. It takes the controller to run with
// the given options.
func NewPreviewer(config *rest.Config, mapper apimeta.RESTMapper, o Options) (*kustomization.Previewer, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	o.Kustomization.Rivals, o.Kustomization.RivalsIn = o.withheld()
	return kustomization.NewPreviewer(config, httpClient, scheme, mapper, o.Kustomization)
}
