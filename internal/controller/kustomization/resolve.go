package kustomization

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/expression"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// resolve finds the artifact that the source offers now.
func (p *pass) resolve(ctx context.Context) *outcome {
	source, err := p.source(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return p.waiting(meta.ArtifactFailedReason, fmt.Sprintf(
			"%v: create %s, or correct spec.sourceRef; nothing is pruned meanwhile", err, p.sourceName()), p.retryInterval())
	case apimeta.IsNoMatchError(err):
		return p.waiting(meta.ArtifactFailedReason, fmt.Sprintf(
			"the cluster does not serve %s of %s: install its CRD and the controller that looks after it, or correct spec.sourceRef.kind; "+
				"nothing is pruned meanwhile", p.ks.Spec.SourceRef.Kind, sourcev1.GroupVersion), p.RequeueDependency)
	case err != nil:
		return p.waitingErr(fmt.Errorf("unable to get source '%s/%s': %w", p.sourceNamespace(), p.ks.Spec.SourceRef.Name, err))
	}
	p.artifact = source.GetArtifact()
	if p.artifact == nil {
		return p.waiting(meta.ArtifactFailedReason, fmt.Sprintf(
			"Source artifact not found, retrying in %s%s", p.RequeueDependency, p.sourceFault(source)), p.RequeueDependency)
	}
	return nil
}

// checkDependencies makes sure that what this Kustomization depends on is ready, and at the same revision where both
// follow one source.
func (p *pass) checkDependencies(ctx context.Context) *outcome {
	if p.choosesStored() {
		p.independent = true
		return nil
	}
	for _, d := range p.ks.Spec.DependsOn {
		key := client.ObjectKey{Namespace: d.Namespace, Name: d.Name}
		if key.Namespace == "" {
			key.Namespace = p.ks.Namespace
		}
		dep := &v1.Kustomization{}
		err := p.Reader.Get(ctx, key, dep)
		if err != nil && !apierrors.IsNotFound(err) {
			return p.waitingErr(fmt.Errorf("unable to get dependency '%s': %w", key, err))
		}
		problem := ""
		if err != nil {
			problem = fmt.Sprintf("dependency '%s' not found: %v", key, err)
		} else if problem, err = p.dependencyProblem(d.ReadyExpr, dep); errors.Is(err, expression.ErrInvalid) {
			return invalidExpression(err)
		} else if err != nil {
			problem = fmt.Sprintf("dependency '%s' is not ready: %v", key, err)
		}
		if problem != "" {
			p.event(normal, meta.DependencyNotReadyReason,
				fmt.Sprintf("Dependencies do not meet ready condition, retrying in %s", p.RequeueDependency))
			return p.waiting(meta.DependencyNotReadyReason, problem, p.RequeueDependency)
		}
	}
	return nil
}

// dependencyProblem says why a dependency does not let this Kustomization go on; empty when it does. An expression is asked
// instead of the conditions, or first, where both have to hold.
func (p *pass) dependencyProblem(readyExpr string, dep *v1.Kustomization) (string, error) {
	key := keyOf(dep)
	if readyExpr == "" {
		return p.conditionsProblem(key, dep), nil
	}
	ready, err := p.expressions().ready.Evaluate(readyExpr, p.ks, dep)
	switch {
	case err != nil:
		return "", err
	case !ready:
		return fmt.Sprintf("dependency '%s' is not ready according to readyExpr eval", key), nil
	case p.AdditiveReadyExpr:
		return p.conditionsProblem(key, dep), nil
	}
	return "", nil
}

// conditionsProblem says why a dependency is not ready by what its status says; empty when it is.
func (p *pass) conditionsProblem(key client.ObjectKey, dep *v1.Kustomization) string {
	ready := apimeta.IsStatusConditionTrue(dep.Status.Conditions, meta.ReadyCondition)
	if !ready || dep.Status.ObservedGeneration != dep.Generation {
		return fmt.Sprintf("dependency '%s' is not ready", key)
	}
	ref, own := dep.Spec.SourceRef, p.ks.Spec.SourceRef
	namespace := ref.Namespace
	if namespace == "" {
		namespace = dep.Namespace
	}
	sameSource := ref.Kind == own.Kind && ref.Name == own.Name && namespace == p.sourceNamespace()
	if sameSource && !isPinned(dep) && dep.Status.LastAppliedRevision != p.revision() {
		return fmt.Sprintf("dependency '%s' revision is not up to date", key)
	}
	return ""
}

// isPinned tells whether a person chose what a Kustomization runs. Whoever depends on it goes on with that.
func isPinned(ks *v1.Kustomization) bool {
	return ks.Status.Rollout != nil && ks.Status.Rollout.Pin != nil
}

// waiting ends the pass until something that this Kustomization can't change is there.
func (p *pass) waiting(reason, message string, after time.Duration) *outcome {
	p.rollout = plan.Wait(p.rollout, p.now)
	return &outcome{state: stateWaiting, reason: reason, message: message, after: after}
}

// waitingErr ends the pass with a fault of the API server; the queue backs off.
func (p *pass) waitingErr(err error) *outcome {
	return &outcome{state: stateFailed, reason: meta.ArtifactFailedReason, message: err.Error(), err: err, quiet: true}
}
