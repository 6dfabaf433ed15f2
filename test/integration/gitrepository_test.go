package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

const (
	sourceRepo = "app.git"
	sourceWait = 30 * time.Second
)

// sourceScenario is a namespace with the source controller in it, and a Git server.
type sourceScenario struct {
	t         *testing.T
	namespace string
	git       *gitserver.Server
	holdfast  *holdfast
	options   func(*app.Options)
}

// newSourceScenario starts Git server and controller; the storage outlives a restart.
func newSourceScenario(t *testing.T) *sourceScenario {
	t.Helper()
	s := &sourceScenario{t: t, namespace: newNamespace(t), git: gitserver.New(t.TempDir())}
	if err := s.git.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.git.Close() })
	if err := s.git.CreateRepository(sourceRepo); err != nil {
		t.Fatal(err)
	}
	storage := t.TempDir()
	s.options = func(o *app.Options) {
		o.Controllers = []string{app.ControllerSource}
		o.Source.StoragePath = storage
		o.Source.MinRetryDelay, o.Source.MaxRetryDelay = 100*time.Millisecond, time.Second
		o.Source.IntervalJitterPercentage = 0
	}
	s.holdfast = runHoldfast(t, s.namespace, s.options)
	return s
}

func (s *sourceScenario) restart() {
	s.t.Helper()
	s.holdfast.stop(s.t)
	s.holdfast = runHoldfast(s.t, s.namespace, s.options)
	s.deleteAtEnd()
}

func (s *sourceScenario) commit(files map[string]string, message string) string {
	s.t.Helper()
	sha, err := s.git.Commit(sourceRepo, "main", files, message)
	if err != nil {
		s.t.Fatal(err)
	}
	return sha
}

// follow creates a GitRepository that follows main.
func (s *sourceScenario) follow(change func(*sourcev1.GitRepositorySpec)) {
	s.t.Helper()
	o := &sourcev1.GitRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "app"},
		Spec: sourcev1.GitRepositorySpec{
			URL: s.git.URL(sourceRepo), Interval: metav1.Duration{Duration: time.Hour},
			Reference: &sourcev1.GitRepositoryRef{Branch: "main"},
		},
	}
	if change != nil {
		change(&o.Spec)
	}
	create(s.t, o)
	s.deleteAtEnd()
}

// deleteAtEnd deletes the GitRepository when the test ends and waits for its finalizer. It is called after each start of
// the controllers, so that it runs before they end.
func (s *sourceScenario) deleteAtEnd() {
	s.t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), sourceWait)
		defer cancel()
		o := &sourcev1.GitRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "app"}}
		err := kube.Delete(ctx, o)
		for err == nil {
			time.Sleep(pollInterval)
			err = kube.Get(ctx, client.ObjectKeyFromObject(o), o)
		}
		if client.IgnoreNotFound(err) != nil {
			s.t.Errorf("delete the GitRepository: %v", err)
		}
	})
}

func (s *sourceScenario) get(ctx context.Context) (*sourcev1.GitRepository, error) {
	var o sourcev1.GitRepository
	err := kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "app"}, &o)
	return &o, err
}

// await waits for a state of the GitRepository and returns it.
func (s *sourceScenario) await(what string, check func(*sourcev1.GitRepository) error) *sourcev1.GitRepository {
	s.t.Helper()
	var got *sourcev1.GitRepository
	eventually(s.t, sourceWait, what, func(ctx context.Context) (err error) {
		if got, err = s.get(ctx); err != nil {
			return err
		}
		return check(got)
	})
	return got
}

func (s *sourceScenario) awaitRevision(revision string) *sourcev1.GitRepository {
	s.t.Helper()
	return s.await("the artifact of "+revision, func(o *sourcev1.GitRepository) error {
		if !o.Status.Artifact.HasRevision(revision) {
			return fmt.Errorf("artifact %+v, conditions %v", o.Status.Artifact, o.Status.Conditions)
		}
		return conditionIs(o.Status.Conditions, fluxmeta.ReadyCondition, metav1.ConditionTrue)
	})
}

func (s *sourceScenario) awaitReason(kind, reason string) *sourcev1.GitRepository {
	s.t.Helper()
	return s.await(kind+" because of "+reason, func(o *sourcev1.GitRepository) error {
		c := meta.FindStatusCondition(o.Status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
			return fmt.Errorf("conditions %v", o.Status.Conditions)
		}
		return nil
	})
}

// change alters the GitRepository.
func (s *sourceScenario) change(alter func(*sourcev1.GitRepository)) {
	s.t.Helper()
	o, err := s.get(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	patch := client.MergeFrom(o.DeepCopy())
	alter(o)
	if err := kube.Patch(s.t.Context(), o, patch); err != nil {
		s.t.Fatal(err)
	}
}

// request asks for a reconciliation, as `flux reconcile` does, and waits until it was handled.
func (s *sourceScenario) request(token string) *sourcev1.GitRepository {
	s.t.Helper()
	s.change(func(o *sourcev1.GitRepository) {
		o.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: token}
	})
	return s.await("the request is handled", func(o *sourcev1.GitRepository) error {
		if o.Status.LastHandledReconcileAt != token {
			return fmt.Errorf("last handled: %q", o.Status.LastHandledReconcileAt)
		}
		return nil
	})
}

// kstatusOf is what `flux get` and health checks make of the object.
func kstatusOf(t *testing.T, o *sourcev1.GitRepository) status.Status {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

func (s *sourceScenario) events(ctx context.Context, reason string) (int, error) {
	var list corev1.EventList
	if err := kube.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range list.Items {
		if e.Reason == reason && e.InvolvedObject.Kind == sourcev1.GitRepositoryKind {
			n += int(max(1, e.Count))
		}
	}
	return n, nil
}

func TestGitRepositoryIsPublishedAndFollowed(t *testing.T) {
	t.Parallel()
	s := newSourceScenario(t)
	first := s.commit(map[string]string{"a.yaml": "1"}, "first")
	s.follow(nil)
	o := s.awaitRevision("main@sha1:" + first)
	if got := kstatusOf(t, o); got != status.CurrentStatus {
		t.Errorf("kstatus %s, want it current: %v", got, o.Status.Conditions)
	}
	if !slices.Contains(o.Finalizers, sourcev1.SourceFinalizer) || o.Status.ObservedGeneration != o.Generation {
		t.Errorf("finalizers %v, observed generation %d of %d", o.Finalizers, o.Status.ObservedGeneration, o.Generation)
	}
	if err := artifact.NewReader(artifact.ReaderOptions{}).Fetch(t.Context(), o.Status.Artifact, t.TempDir()); err != nil {
		t.Errorf("the artifact can't be read: %v", err)
	}
	second := s.commit(map[string]string{"a.yaml": "2"}, "second")
	if o = s.request("1"); !o.Status.Artifact.HasRevision("main@sha1:" + second) {
		t.Errorf("after the request: %+v", o.Status.Artifact)
	}
	eventually(t, sourceWait, "one event for each revision", func(ctx context.Context) error {
		if n, err := s.events(ctx, "NewArtifact"); err != nil || n != 2 {
			return fmt.Errorf("%d events, %w", n, err)
		}
		return nil
	})
	handled := s.request("2")
	_, packs := s.git.Requests()
	if again := s.request("3"); again.Status.LastHandledReconcileAt != "3" || again.Status.Artifact.Digest != handled.Status.Artifact.Digest {
		t.Errorf("a request without a change: %+v", again.Status)
	}
	if _, now := s.git.Requests(); now != packs {
		t.Errorf("%d clones for nothing", now-packs)
	}
}

// TestGitRepositoryFailuresAreSaid: each fault ends in conditions that say what, where and what to do; the artifact
// that was there stays, and the next good revision clears all of it.
func TestGitRepositoryFailuresAreSaid(t *testing.T) {
	t.Parallel()
	s := newSourceScenario(t)
	first := s.commit(map[string]string{"a.yaml": "1"}, "first")
	s.follow(nil)
	s.awaitRevision("main@sha1:" + first)
	faults := map[string]struct {
		alter           func(*sourcev1.GitRepositorySpec)
		condition, want string
		wantKstatus     status.Status
	}{
		"branch":     {func(x *sourcev1.GitRepositorySpec) { x.Reference.Branch = "gone" }, sourcev1.FetchFailedCondition, sourcev1.GitOperationFailedReason, status.InProgressStatus},
		"repository": {func(x *sourcev1.GitRepositorySpec) { x.URL = s.git.URL("gone.git") }, sourcev1.FetchFailedCondition, sourcev1.GitOperationFailedReason, status.InProgressStatus},
		"secret":     {func(x *sourcev1.GitRepositorySpec) { x.SecretRef = &fluxmeta.LocalObjectReference{Name: "gone"} }, sourcev1.FetchFailedCondition, sourcev1.AuthenticationFailedReason, status.InProgressStatus},
		"URL":        {func(x *sourcev1.GitRepositorySpec) { x.URL = "https://" }, fluxmeta.StalledCondition, sourcev1.URLInvalidReason, status.FailedStatus},
		"provider":   {func(x *sourcev1.GitRepositorySpec) { x.Provider = sourcev1.GitProviderAzure }, fluxmeta.StalledCondition, sourcev1.InvalidProviderConfigurationReason, status.FailedStatus},
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		fault := faults[name]
		o, err := s.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		good := o.Spec.DeepCopy()
		s.change(func(o *sourcev1.GitRepository) { fault.alter(&o.Spec) })
		o = s.awaitReason(fault.condition, fault.want)
		if got := kstatusOf(t, o); got != fault.wantKstatus {
			t.Errorf("%s: kstatus %s, want %s", name, got, fault.wantKstatus)
		}
		if !o.Status.Artifact.HasRevision("main@sha1:" + first) {
			t.Errorf("%s: artifact %+v, want the former one", name, o.Status.Artifact)
		}
		ready := meta.FindStatusCondition(o.Status.Conditions, fluxmeta.ReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != fault.want || !strings.Contains(ready.Message, ";") {
			t.Errorf("%s: Ready is %+v, want False with advice", name, ready)
		}
		s.change(func(o *sourcev1.GitRepository) { o.Spec = *good })
		o = s.awaitRevision("main@sha1:" + first)
		if len(o.Status.Conditions) != 2 {
			t.Errorf("%s: after it: %v, want Ready and ArtifactInStorage alone", name, o.Status.Conditions)
		}
	}
}

// TestC25GitRepositoryWhoseFetchIsCut: nothing is published until the whole commit is there, and then it is.
func TestC25GitRepositoryWhoseFetchIsCut(t *testing.T) {
	t.Parallel()
	s := newSourceScenario(t)
	first := s.commit(map[string]string{"a.yaml": "1"}, "first")
	s.follow(nil)
	s.awaitRevision("main@sha1:" + first)
	second := s.commit(map[string]string{"b.yaml": strings.Repeat("2", 10_000)}, "second")
	s.git.SetFault(func(r *http.Request) gitserver.Fault {
		if gitserver.IsPack(r) {
			return gitserver.Fault{CutAfter: 150}
		}
		return gitserver.Fault{}
	})
	o := s.request("1")
	if err := conditionIs(o.Status.Conditions, sourcev1.FetchFailedCondition, metav1.ConditionTrue); err != nil {
		t.Error(err)
	}
	if !o.Status.Artifact.HasRevision("main@sha1:" + first) {
		t.Errorf("artifact %+v, want the former one", o.Status.Artifact)
	}
	s.git.SetFault(nil)
	s.awaitRevision("main@sha1:" + second) // by back-off, nobody asks again
}

// TestGitRepositoryAfterARestart: the artifact is kept, and its URL follows the new port.
func TestGitRepositoryAfterARestart(t *testing.T) {
	t.Parallel()
	s := newSourceScenario(t)
	first := s.commit(map[string]string{"a.yaml": "1"}, "first")
	s.follow(nil)
	before := s.awaitRevision("main@sha1:" + first)
	_, packs := s.git.Requests()
	s.restart()
	o := s.await("an artifact at the new port", func(o *sourcev1.GitRepository) error {
		err := artifact.NewReader(artifact.ReaderOptions{}).Fetch(t.Context(), o.Status.Artifact, t.TempDir())
		if err == nil && o.Status.Artifact.URL == before.Status.Artifact.URL {
			return errors.New("the URL is the former one")
		}
		return err
	})
	if o.Status.Artifact.Digest != before.Status.Artifact.Digest {
		t.Errorf("digest %s, want %s", o.Status.Artifact.Digest, before.Status.Artifact.Digest)
	}
	if _, now := s.git.Requests(); now != packs {
		t.Errorf("%d clones for nothing", now-packs)
	}
}

func TestGitRepositoryDeletion(t *testing.T) {
	t.Parallel()
	s := newSourceScenario(t)
	first := s.commit(map[string]string{"a.yaml": "1"}, "first")
	s.follow(nil)
	o := s.awaitRevision("main@sha1:" + first)
	if err := kube.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	stored := o.Status.Artifact
	eventuallyGone(t, sourceWait, o)
	err := artifact.NewReader(artifact.ReaderOptions{}).Fetch(t.Context(), stored, t.TempDir())
	if !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("artifact after the deletion: %v, want none", err)
	}
}

// TestGitRepositoryHeldUpByItsServer: a server that never answers holds neither others nor the worker beyond the
// timeout.
func TestGitRepositoryHeldUpByItsServer(t *testing.T) {
	t.Parallel()
	s := newSourceScenario(t)
	s.git.SetFault(func(*http.Request) gitserver.Fault { return gitserver.Fault{Delay: time.Hour} })
	s.follow(func(x *sourcev1.GitRepositorySpec) { x.Timeout = &metav1.Duration{Duration: time.Second} })
	o := s.awaitReason(sourcev1.FetchFailedCondition, sourcev1.GitOperationFailedReason)
	if c := meta.FindStatusCondition(o.Status.Conditions, fluxmeta.ReadyCondition); !strings.Contains(c.Message, "spec.timeout") {
		t.Errorf("message %q, want what to do about a timeout", c.Message)
	}
	before := o.ResourceVersion
	// Several attempts later the message is still the same, so nothing was written.
	listings, _ := s.git.Requests()
	eventually(t, sourceWait, "two more attempts", func(context.Context) error {
		if now, _ := s.git.Requests(); now < listings+2 {
			return fmt.Errorf("%d attempts", now-listings)
		}
		return nil
	})
	if o, err := s.get(t.Context()); err != nil || o.ResourceVersion != before {
		t.Errorf("the object changed: %v, %v", o.Status.Conditions, err)
	}
}
