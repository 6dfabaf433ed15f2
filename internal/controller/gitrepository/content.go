package gitrepository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// content is what an artifact is made of, beside the revision.
type content struct {
	ignore     *string
	submodules bool
	sparse     []string
	include    []sourcev1.GitRepositoryInclude
	// included are the artifacts of include, in the same order.
	included []*meta.Artifact
}

// observedContent is what the artifact in a status was made of.
func observedContent(s sourcev1.GitRepositoryStatus) content {
	return content{
		ignore: s.ObservedIgnore, submodules: s.ObservedRecurseSubmodules, sparse: s.ObservedSparseCheckout,
		include: s.ObservedInclude, included: s.IncludedArtifacts,
	}
}

// observe writes down what the artifact was made of.
func (c content) observe(s *sourcev1.GitRepositoryStatus) {
	s.ObservedIgnore, s.ObservedRecurseSubmodules, s.ObservedSparseCheckout = c.ignore, c.submodules, c.sparse
	s.ObservedInclude, s.IncludedArtifacts = c.include, c.included
}

// is tells whether two contents give the same artifact for the same revision.
func (c content) is(other content) bool {
	same := func(a, b *meta.Artifact) bool { return a.HasRevision(b.Revision) && a.HasDigest(b.Digest) }
	return ptr.Equal(c.ignore, other.ignore) && c.submodules == other.submodules && slices.Equal(c.sparse, other.sparse) &&
		slices.Equal(c.include, other.include) && slices.EqualFunc(c.included, other.included, same)
}

// wantedContent is what the spec wants an artifact to be made of.
func (r *reconciler) wantedContent(ctx context.Context, repository *sourcev1.GitRepository) (content, *failure) {
	spec := repository.Spec.DeepCopy()
	out := content{ignore: spec.Ignore, submodules: spec.RecurseSubmodules, sparse: spec.SparseCheckout, include: spec.Include}
	for _, include := range spec.Include {
		key := client.ObjectKey{Namespace: repository.Namespace, Name: include.GitRepositoryRef.Name}
		var found sourcev1.GitRepository
		err := r.client.Get(ctx, key, &found)
		switch {
		case apierrors.IsNotFound(err):
			return out, r.unavailable("NotFound", fmt.Errorf("include GitRepository %s: %w; create it or correct spec.include", key, err))
		case err != nil:
			return out, r.unavailable("NotFound", fmt.Errorf("include GitRepository %s: %w", key, err))
		case found.Status.Artifact == nil:
			return out, r.unavailable("NoArtifact", fmt.Errorf("include GitRepository %s: it has no artifact yet; look at its conditions", key))
		case !slotOf(&found).Holds(found.Status.Artifact.Path):
			return out, r.unavailable("NoArtifact", fmt.Errorf("include GitRepository %s: its status names an artifact of another source; reconcile it", key))
		}
		out.included = append(out.included, found.Status.Artifact.DeepCopy())
	}
	return out, nil
}

// unavailable says that what is to be included is not there; it is looked for again after a while.
func (r *reconciler) unavailable(reason string, err error) *failure {
	return &failure{condition: sourcev1.IncludeUnavailableCondition, reason: reason, err: err, after: r.requeueDependency}
}

// compose makes the tree of the artifact. What it reads from stays on disk until done is called.
func (r *reconciler) compose(ctx context.Context, remote *git.Remote, s *git.Snapshot, wanted content) (_ *artifact.Tree, done func() error, f *failure) {
	done = func() error { return nil }
	if wanted.submodules {
		if err := s.AddSubmodules(ctx, remote); err != nil {
			return nil, done, gitFailed(err)
		}
	}
	tree := s.Tree
	if len(wanted.sparse) > 0 {
		var err error
		if tree, err = tree.Only(wanted.sparse); err != nil {
			missing := fetchFailed(sourcev1.GitOperationFailedReason, err)
			missing.patient = true
			return nil, done, missing
		}
	}
	var undo []func() error
	done = func() error {
		var failed []error
		for _, f := range undo {
			failed = append(failed, f())
		}
		return errors.Join(failed...)
	}
	for i, include := range wanted.include {
		remove, err := r.include(ctx, tree, include, wanted.included[i])
		undo = append(undo, remove)
		if err != nil {
			broken := storageFailed("CopyFailure", fmt.Errorf("include GitRepository %s: %w", include.GitRepositoryRef.Name, err))
			return nil, done, broken
		}
	}
	return tree, done, nil
}

// include adds the content of an artifact of this store to a tree.
func (r *reconciler) include(ctx context.Context, tree *artifact.Tree, include sourcev1.GitRepositoryInclude, a *meta.Artifact) (remove func() error, err error) {
	dir, err := os.MkdirTemp(r.tempDir, "include-*")
	if err != nil {
		return func() error { return nil }, fmt.Errorf("create a directory for it: %w", err)
	}
	remove = func() error { return os.RemoveAll(dir) }
	if err := r.store.Unpack(ctx, a, dir); err != nil {
		return remove, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return remove, fmt.Errorf("open its directory: %w", err)
	}
	remove = func() error { return errors.Join(root.Close(), os.RemoveAll(dir)) }
	return remove, tree.AddDir(root, include.GetFromPath(), include.GetToPath())
}
