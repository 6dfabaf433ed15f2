package gitrepository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/source/git"
	"github.com/holdfast-gitops/holdfast/internal/source/githubapp"
)

// CheckOut resolves another revision of a source than the one that it follows, by the steps of the controller, and returns its name and
// its files. A revision is a commit with all its digits, with or without the branch before it as in a status, a branch, or a full name
// such as refs/tags/v1. The reader needs the Secrets of the source.
func CheckOut(ctx context.Context, reader client.Client, repository *sourcev1.GitRepository, revision string) (string, artifact.CheckOut, error) {
	none := artifact.CheckOut{}
	if len(repository.Spec.Include) > 0 {
		return "", none, fmt.Errorf("GitRepository %s/%s includes others, which are only put together on the cluster: check the revision out and give --path",
			repository.Namespace, repository.Name)
	}
	r := &reconciler{client: reader, secrets: reader, apps: &githubapp.Source{Now: time.Now}, now: time.Now, tempDir: os.TempDir()}
	repository = repository.DeepCopy()
	repository.Spec.Reference = referenceTo(revision)
	if f := checkSpec(repository.Spec); f != nil {
		return "", none, f.err
	}
	remote, f := r.remote(ctx, repository)
	if f != nil {
		return "", none, f.err
	}
	head, err := remote.Resolve(ctx, reference(repository.Spec))
	if err != nil {
		return "", none, err
	}
	return head.Revision, artifact.CheckOut{Tree: func(ctx context.Context) (*artifact.Tree, *string, func() error, error) {
		return r.checkOut(ctx, repository, remote, head)
	}}, nil
}

// checkOut fetches a commit and makes the tree of its artifact.
func (r *reconciler) checkOut(ctx context.Context, repository *sourcev1.GitRepository, remote *git.Remote, head git.Head) (*artifact.Tree, *string, func() error, error) {
	wanted, f := r.wantedContent(ctx, repository)
	if f != nil {
		return nil, nil, nil, f.err
	}
	snapshot, err := remote.Fetch(ctx, head)
	if err != nil {
		return nil, nil, nil, err
	}
	tree, done, f := r.compose(ctx, remote, snapshot, wanted)
	closeAll := func() error { return errors.Join(done(), snapshot.Close()) }
	if f == nil {
		_, f = r.verify(ctx, repository, snapshot)
	}
	if f != nil {
		return nil, nil, nil, errors.Join(f.err, closeAll())
	}
	return tree, wanted.ignore, closeAll, nil
}

// commitDigits is the length of a whole commit hash.
const commitDigits = 40

// referenceTo is what a revision names.
func referenceTo(revision string) *sourcev1.GitRepositoryRef {
	_, commit, found := strings.Cut(revision, "sha1:")
	if !found {
		commit = revision
	}
	switch {
	case len(commit) == commitDigits && strings.Trim(commit, "0123456789abcdef") == "":
		return &sourcev1.GitRepositoryRef{Commit: commit}
	case strings.HasPrefix(revision, "refs/"):
		return &sourcev1.GitRepositoryRef{Name: revision}
	}
	return &sourcev1.GitRepositoryRef{Branch: revision}
}
