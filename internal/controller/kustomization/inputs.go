package kustomization

import (
	"context"
	"fmt"
	"strings"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// inputs are what a build takes from the cluster. They are read in every pass, with the controller's own rights, in the namespace
// of the Kustomization: nothing else tells that a value has changed.
type inputs struct {
	substitution *build.Substitution
}

// key stands for the inputs. It is kept in memory only.
func (i inputs) key() string { return i.substitution.Key() }

// readInputs reads what the spec refers to.
func (p *pass) readInputs(ctx context.Context) (inputs, error) {
	substitution, err := p.readSubstitution(ctx)
	return inputs{substitution: substitution}, err
}

// readSubstitution returns what spec.postBuild asks for, nil without it.
func (p *pass) readSubstitution(ctx context.Context) (*build.Substitution, error) {
	post := p.ks.Spec.PostBuild
	if post == nil {
		return nil, nil
	}
	variables := map[string]string{}
	for _, ref := range post.SubstituteFrom {
		values, err := p.readVariables(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("substitute from '%s/%s' error: %w", ref.Kind, ref.Name, err)
		}
		for name, value := range values {
			variables[name] = oneLine(value)
		}
	}
	for name, value := range post.Substitute {
		variables[name] = oneLine(value)
	}
	return &build.Substitution{
		Variables: variables,
		Always:    post.SubstituteStrategy == fluxv1.SubstituteStrategyAlways,
		Lenient:   p.LenientSubstitution,
		WholeText: p.SubstituteWholeText,
	}, nil
}

// oneLine takes the line breaks out of a value, as Flux does: editors put one at the end.
func oneLine(value string) string { return strings.ReplaceAll(value, "\n", "") }

// readVariables reads the values that a reference names. An optional one may be missing, but not unreadable.
func (p *pass) readVariables(ctx context.Context, ref fluxv1.SubstituteReference) (map[string]string, error) {
	values := map[string]string{}
	key := client.ObjectKey{Namespace: p.ks.Namespace, Name: ref.Name}
	var err error
	switch ref.Kind {
	case "ConfigMap":
		config := &corev1.ConfigMap{}
		err = p.Reader.Get(ctx, key, config)
		values = config.Data
	case "Secret":
		secret := &corev1.Secret{}
		err = p.Reader.Get(ctx, key, secret)
		for name, value := range secret.Data {
			values[name] = string(value)
		}
	default:
		return nil, fmt.Errorf("kind is not supported: use ConfigMap or Secret")
	}
	if ref.Optional && apierrors.IsNotFound(err) {
		return nil, nil
	}
	return values, err
}

// tellInPlace tells of generated objects that an apply changed under their names, because a variable has another value. No pod
// restarts for it, though their hash makes it look as if.
func (p *pass) tellInPlace(changes []string) {
	for _, id := range p.built.InPlace {
		for _, change := range changes {
			if change == id.String()+" configured" {
				p.event(normal, meta.ProgressingReason, id.String()+" was changed under the same name: the hash in it was made before "+
					"variables were replaced, so that what reads it at its start keeps the old values until it is restarted")
			}
		}
	}
}
