package gitrepository

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/source/git"
)

// defaultTimeout bounds the Git operations of a spec without a timeout.
const defaultTimeout = time.Minute

// sync brings the artifact up to the reference, within spec.timeout.
func (r *reconciler) sync(ctx context.Context, repository *sourcev1.GitRepository) outcome {
	o := r.attempt(ctx, repository)
	if o.failure != nil && ofCloud(repository.Spec) {
		r.adviseOnIdentity(repository, o.failure)
	}
	return o
}

func (r *reconciler) attempt(ctx context.Context, repository *sourcev1.GitRepository) outcome {
	current := r.current(repository)
	if f := checkSpec(repository.Spec); f != nil {
		return current.failed(f)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout(repository.Spec))
	defer cancel()
	remote, f := r.remote(ctx, repository)
	if f != nil {
		return current.failed(f)
	}
	wanted, f := r.wantedContent(ctx, repository)
	if f != nil {
		return current.failed(f)
	}
	head, err := remote.Resolve(ctx, reference(repository.Spec))
	if err != nil {
		return current.failed(gitFailed(err))
	}
	proved := repository.Spec.Verification == nil || current.proof != nil
	if current.stored && proved && current.artifact.Revision == head.Revision && current.content.is(wanted) {
		return current
	}
	next, f := r.fetch(ctx, repository, remote, head, wanted)
	if f != nil {
		return current.failed(f)
	}
	return next
}

// current is the outcome that changes nothing: what the status says, as far as it is true. The URL follows the server,
// whose port may have changed since.
func (r *reconciler) current(repository *sourcev1.GitRepository) outcome {
	status := repository.Status.DeepCopy()
	o := outcome{artifact: status.Artifact, content: observedContent(*status), proof: observedProof(repository)}
	if o.artifact == nil || !slotOf(repository).Holds(o.artifact.Path) {
		return o
	}
	// Why it can't be verified makes no difference: it is built again.
	o.stored = r.store.Verify(o.artifact) == nil
	if o.stored {
		o.artifact.URL = r.store.URL(o.artifact.Path)
	}
	return o
}

// failed is the outcome when the work ended with a failure: the former artifact stays.
func (o outcome) failed(f *failure) outcome {
	o.failure = f
	return o
}

// fetch gets the commit, proves it, and publishes it.
func (r *reconciler) fetch(ctx context.Context, repository *sourcev1.GitRepository, remote *git.Remote, head git.Head, wanted content) (o outcome, f *failure) {
	snapshot, err := remote.Fetch(ctx, head)
	if err != nil {
		return outcome{}, gitFailed(err)
	}
	defer closing(snapshot.Close, &f)
	proof, f := r.verify(ctx, repository, snapshot)
	if f != nil {
		return outcome{}, f
	}
	tree, done, f := r.compose(ctx, remote, snapshot, wanted)
	defer closing(done, &f)
	if f != nil {
		return outcome{}, f
	}
	ignore, err := tree.Ignore(wanted.ignore)
	if err != nil {
		return outcome{}, buildFailed(err)
	}
	files, err := tree.Files(ignore)
	if err != nil {
		return outcome{}, buildFailed(err)
	}
	stored, f := r.publish(ctx, repository, snapshot, files)
	if f != nil {
		return outcome{}, f
	}
	return outcome{
		artifact:  stored,
		stored:    true,
		content:   wanted,
		proof:     proof,
		published: &published{files: len(files), commit: snapshot.Commit, subject: snapshot.Subject},
	}, nil
}

// closing removes what was needed for a while, and reports what went wrong with it unless there is something worse.
func closing(remove func() error, f **failure) {
	if err := remove(); err != nil && *f == nil {
		*f = storageFailed(sourcev1.DirCreationFailedReason, err)
	}
}

func (r *reconciler) publish(ctx context.Context, repository *sourcev1.GitRepository, s *git.Snapshot, files []artifact.File) (*meta.Artifact, *failure) {
	if former := repository.Status.Artifact; former != nil && slotOf(repository).Holds(former.Path) {
		if err := r.store.Retire(former.Path); err != nil {
			return nil, storageFailed(sourcev1.ArchiveOperationFailedReason, err)
		}
	}
	stored, err := r.store.Publish(ctx, artifact.Publication{
		Slot: slotOf(repository), Name: s.Commit, Revision: s.Revision, Files: files,
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fetchFailed(sourcev1.GitOperationFailedReason, fmt.Errorf("archive %s: %w; raise spec.timeout", s.Revision, git.ErrTimeout))
	}
	if err != nil {
		return nil, storageFailed(sourcev1.ArchiveOperationFailedReason, err)
	}
	return stored, nil
}

func slotOf(repository *sourcev1.GitRepository) artifact.Slot {
	return artifact.Slot{Kind: sourcev1.GitRepositoryKind, Namespace: repository.Namespace, Name: repository.Name}
}

func timeout(spec sourcev1.GitRepositorySpec) time.Duration {
	if spec.Timeout == nil || spec.Timeout.Duration <= 0 {
		return defaultTimeout
	}
	return spec.Timeout.Duration
}
