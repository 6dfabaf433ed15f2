package kustomization

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/build"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// buildDesired renders the artifact, unless the same inputs were rendered before. What was fetched from elsewhere is an input
// that nobody announces, so that it is fetched again.
func (p *pass) buildDesired(ctx context.Context) *outcome {
	before, applied := p.rollout, p.mem.appliedKey
	out := p.buildWanted(ctx)
	if out != nil && p.choosesStored() {
		// A stored revision goes on as if nothing was wrong with the source.
		p.buildFault, p.rollout, p.mem.appliedKey = out, before, applied
		return nil
	}
	return out
}

// buildWanted renders what the source wants.
func (p *pass) buildWanted(ctx context.Context) *outcome {
	p.at(building, p.revision())
	in, err := p.readInputs(ctx)
	if err != nil {
		return p.buildFailed(err)
	}
	key := fmt.Sprintf("%s/%d/%s", p.artifact.Digest, p.ks.Generation, in.key())
	same := p.mem.built != nil && p.mem.buildKey == key
	if !same || p.isOutdated() {
		built, out := p.render(ctx, in)
		switch {
		case out == nil:
			p.mem.buildKey, p.mem.built, p.mem.builtAt, p.mem.fetchFailures = key, built, p.now, 0
		case !same || !out.busy:
			return out
		}
	}
	p.built = p.mem.built
	p.ks.Status.LastAttemptedRevision = p.revision()
	return nil
}

// render fetches the artifact, which others may work with at the same time, and builds it.
func (p *pass) render(ctx context.Context, in inputs) (*build.Result, *outcome) {
	p.at(fetching, p.revision())
	root, done, err := p.Artifacts.Open(ctx, p.artifact)
	var noDirectory *artifact.DirectoryError
	switch {
	case errors.As(err, &noDirectory):
		p.at(building, p.revision())
		return nil, p.failed("DirectoryCreationFailed", err)
	case err != nil:
		return nil, p.fetchFailed(err)
	}
	defer done()
	p.at(building, p.revision())
	options := p.buildOptions(ctx, root, p.ks, in)
	decrypter, end := in.decrypter(ctx)
	defer end()
	options.Decrypter = decrypter
	result, err := p.Build(root, p.ks, options)
	if err != nil {
		return nil, p.buildFailed(err)
	}
	if err := build.Normalize(result.Objects); err != nil {
		return nil, p.buildFailed(err)
	}
	if err := build.CheckDecrypted(result.Objects); err != nil {
		p.ks.Status.LastAttemptedRevision = p.revision()
		return nil, p.failed(meta.ReconciliationFailedReason, err)
	}
	if err := p.checkNamespaces(root, result.Objects, func(ks *v1.Kustomization) build.Options {
		variant := p.buildOptions(ctx, root, ks, in)
		variant.Decrypter = decrypter
		return variant
	}); err != nil {
		return nil, p.buildFailed(err)
	}
	if err := recordable(result.Objects); err != nil {
		return nil, p.buildFailed(err)
	}
	execute.SetOwnerLabels(result.Objects, client.ObjectKeyFromObject(p.ks))
	return &result, nil
}

// The back-off of a download that failed for reasons that may pass. It is short, since a new revision waits behind it.
const (
	fetchBackoff    = time.Second
	maxFetchBackoff = 30 * time.Second
)

// fetchFailed ends a pass whose artifact could not be fetched. What may pass by itself is no error to shout about.
func (p *pass) fetchFailed(err error) *outcome {
	var transient *artifact.TransientError
	p.mem.fetchFailures++
	after := min(maxFetchBackoff, fetchBackoff<<min(p.mem.fetchFailures-1, 5))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return p.waiting(meta.ArtifactFailedReason,
			fmt.Sprintf("Source is not ready, artifact not found, retrying in %s", p.RequeueDependency), min(after, p.RequeueDependency))
	case errors.As(err, &transient) && p.mem.fetchFailures <= p.HTTPRetry:
		return p.waiting(meta.ArtifactFailedReason, err.Error(), after)
	case errors.As(err, &transient):
		out := p.failed(meta.ArtifactFailedReason, err)
		out.after = min(out.after, maxFetchBackoff)
		return out
	}
	return p.failed(meta.ArtifactFailedReason, err)
}

func (p *pass) buildFailed(err error) *outcome {
	var missing *build.PathNotFound
	if errors.As(err, &missing) {
		p.at(fetching, p.revision())
		return p.failed(meta.ArtifactFailedReason, err)
	}
	if errors.Is(err, build.ErrBusy) {
		return &outcome{state: stateProgressing, message: "Waiting to build: " + err.Error(), after: busyLook, busy: true}
	}
	p.ks.Status.LastAttemptedRevision = p.revision()
	return p.failed(meta.BuildFailedReason, err)
}

// failed ends a pass that something said no to; it is repeated at the retry interval. Nothing is pruned.
func (p *pass) failed(reason string, err error) *outcome {
	p.rollout = plan.Refuse(p.rollout, p.now)
	p.mem.appliedKey, p.mem.settled = "", nil
	return &outcome{state: stateFailed, reason: reason, message: err.Error(), after: p.retryInterval()}
}

// desired is the set of the objects of the build.
func (p *pass) desired() object.Set {
	set := make(object.Set, len(p.built.Objects))
	for _, obj := range p.built.Objects {
		set[object.IDOf(obj)] = struct{}{}
	}
	return set
}

// entries are the inventory entries of the build, in apply order.
func (p *pass) entries() []inventory.Entry {
	ordered := p.Executor.ApplyOrder(p.built.Objects)
	entries := make([]inventory.Entry, 0, len(ordered))
	for _, obj := range ordered {
		entries = append(entries, inventory.EntryOf(obj))
	}
	return entries
}

// find returns the object of the build with the given identity, nil if it has none.
func (p *pass) find(id object.ID) *unstructured.Unstructured {
	for _, obj := range p.built.Objects {
		if object.IDOf(obj) == id {
			return obj
		}
	}
	return nil
}

// checkKinds refuses a build that holds an object of a kind that nobody serves, before anything of it is recorded or applied.
// An inventory entry for it would wait to be verified for as long as the kind is not served.
func (p *pass) checkKinds(context.Context) *outcome {
	if err := execute.Unserved(p.built.Objects, p.Mapper); err != nil {
		return p.failed(meta.ReconciliationFailedReason, err)
	}
	return nil
}
