package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

const (
	kustomizationCRD = "kustomizations.kustomize.toolkit.fluxcd.io"
	servedVersion    = "v1"
	installAdvice    = "run `holdfast install --crds-only`"
)

// watchedCRDs are the kinds that the controllers watch, besides their own.
var watchedCRDs = []string{"gitrepositories.source.toolkit.fluxcd.io"}

// preflight checks that the cluster answers, that its CRDs have what the controllers write, and that nobody else does their work.
// A status field that the CRD lacks would be dropped without an error, and with it the memory of what is retained.
func preflight(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, o Options) error {
	// A fixed mapping: with discovery, a server that is no Kubernetes would look like one without CRDs.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	mapper.Add(v1.GroupVersion.WithKind(v1.KustomizationKind), meta.RESTScopeNamespace)
	reader, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return unreachable(config, err)
	}
	var missing []string
	for _, name := range append([]string{kustomizationCRD}, watchedCRDs...) {
		version, err := crdVersion(ctx, reader, name)
		switch {
		case err != nil:
			return crdError(config, name, err)
		case version == nil:
			missing = append(missing, name)
		case name == kustomizationCRD:
			if err := checkDefinition(version); err != nil {
				return err
			}
		}
	}
	if len(missing) > 0 {
		return unavailableErrorf("the cluster does not serve %s of %s: %s", servedVersion, strings.Join(missing, ", "), installAdvice)
	}
	return checkRivals(ctx, reader, o, time.Now())
}

// crdVersion reads the served version of a CRD; nil when there is none.
func crdVersion(ctx context.Context, reader client.Reader, name string) (*apiextensionsv1.CustomResourceDefinitionVersion, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := reader.Get(ctx, types.NamespacedName{Name: name}, &crd); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == servedVersion && v.Served
	})
	if i < 0 {
		return nil, nil
	}
	return &crd.Spec.Versions[i], nil
}

// checkDefinition refuses a definition of Kustomizations that lacks fields of this program.
func checkDefinition(version *apiextensionsv1.CustomResourceDefinitionVersion) error {
	lacking, err := lackingFields(version)
	switch {
	case err != nil:
		return err
	case slices.Contains(lacking, "status.rollout"):
		return unavailableErrorf("the CRD %s lacks status.rollout, as Flux's own does: %s", kustomizationCRD, installAdvice)
	case len(lacking) > 0:
		const most = 5
		names := strings.Join(lacking[:min(len(lacking), most)], ", ")
		if more := len(lacking) - most; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		return unavailableErrorf("the CRD %s is of another version of holdfast, it lacks %s: %s", kustomizationCRD, names, installAdvice)
	}
	return nil
}

// crdError tells an answer that refuses from no answer at all.
func crdError(config *rest.Config, name string, err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return unavailableErrorf("the cluster at %s does not accept the credentials: check the kubeconfig and its context: %w", config.Host, err)
	case apierrors.IsForbidden(err):
		return unavailableErrorf("the right to get customresourcedefinitions is missing: apply the roles that `holdfast install --export` prints: %w", err)
	case errors.As(err, &status):
		return unavailableErrorf("read the CRD %s: %w", name, err)
	default:
		return unreachable(config, err)
	}
}

func unreachable(config *rest.Config, err error) error {
	return &Error{Code: ExitUnavailable, Err: fmt.Errorf("the cluster at %s can't be reached: check --kubeconfig, --context and the network: %w", config.Host, err)}
}
