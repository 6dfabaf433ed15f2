package gitrepository

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/identity"
	"github.com/holdfast-gitops/holdfast/internal/source/githubapp"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

const repo = "app.git"

// bench is a reconciler with a model API server, a real Git server and a real store.
type bench struct {
	*reconciler
	t        *testing.T
	git      *gitserver.Server
	dir      string
	events   chan string
	writes   int
	artifact *httptest.Server
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, git: gitserver.New(t.TempDir()), dir: t.TempDir(), events: make(chan string, 100)}
	if err := b.git.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.git.Close() })
	if err := b.git.CreateRepository(repo); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(sourcev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&sourcev1.GitRepository{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			b.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	b.reconciler = &reconciler{
		client: kube, secrets: kube, tempDir: t.TempDir(), now: time.Now,
		recorder:  &record.FakeRecorder{Events: b.events},
		retention: artifact.Retention{TTL: time.Hour, Records: 2}, requeueDependency: 3 * time.Second,
		apps: &githubapp.Source{Now: time.Now}, identity: identity.New(identity.Options{Client: kube}),
	}
	b.open()
	return b
}

// open opens the store, as a new process does.
func (b *bench) open() {
	b.t.Helper()
	store, err := artifact.OpenStore(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { store.Close() })
	b.artifact = httptest.NewServer(store.Handler())
	b.t.Cleanup(b.artifact.Close)
	store.Advertise(strings.TrimPrefix(b.artifact.URL, "http://"))
	b.store = store
}

func (b *bench) commit(files map[string]string, message string) string {
	b.t.Helper()
	sha, err := b.git.Commit(repo, "main", files, message)
	if err != nil {
		b.t.Fatal(err)
	}
	return sha
}

func (b *bench) create(change func(*sourcev1.GitRepository)) {
	b.t.Helper()
	o := &sourcev1.GitRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "app", Generation: 1},
		Spec: sourcev1.GitRepositorySpec{
			URL: b.git.URL(repo), Interval: metav1.Duration{Duration: time.Minute}, Timeout: &metav1.Duration{Duration: 10 * time.Second},
			Reference: &sourcev1.GitRepositoryRef{Branch: "main"},
		},
	}
	if change != nil {
		change(o)
	}
	if err := b.client.Create(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get() *sourcev1.GitRepository {
	b.t.Helper()
	var o sourcev1.GitRepository
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "ns", Name: "app"}, &o); err != nil {
		b.t.Fatal(err)
	}
	return &o
}

func (b *bench) update(change func(*sourcev1.GitRepository)) {
	b.t.Helper()
	o := b.get()
	change(o)
	o.Generation++
	if err := b.client.Update(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) reconcile() (ctrl.Result, error) {
	return b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "app"}})
}

// settle reconciles and wants success.
func (b *bench) settle() *sourcev1.GitRepository {
	b.t.Helper()
	result, err := b.reconcile()
	if err != nil || result.RequeueAfter != time.Minute {
		b.t.Fatalf("result %v, %v; want the interval", result, err)
	}
	o := b.get()
	if !apimeta.IsStatusConditionTrue(o.Status.Conditions, meta.ReadyCondition) {
		b.t.Fatalf("conditions %v, want Ready", o.Status.Conditions)
	}
	return o
}

// event returns what was recorded since the last call.
func (b *bench) event() string {
	var all []string
	for len(b.events) > 0 {
		all = append(all, <-b.events)
	}
	return strings.Join(all, "\n")
}

func TestFetchesAndFollowsTheBranch(t *testing.T) {
	b := newBench(t)
	first := b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(nil)
	o := b.settle()
	if o.Status.Artifact.Revision != "main@sha1:"+first || o.Finalizers[0] != sourcev1.SourceFinalizer || o.Status.ObservedGeneration != 1 {
		t.Errorf("status %+v, finalizers %v", o.Status, o.Finalizers)
	}
	if got := b.event(); !strings.Contains(got, "Normal NewArtifact stored artifact with 1 files from commit 'first'") {
		t.Errorf("event %q", got)
	}
	dir := t.TempDir()
	if err := artifact.NewReader(artifact.ReaderOptions{}).Fetch(t.Context(), o.Status.Artifact, dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a.yaml")); err != nil || string(got) != "1" {
		t.Errorf("content %q, %v", got, err)
	}
	second := b.commit(map[string]string{"b.yaml": "2"}, "second")
	if o = b.settle(); o.Status.Artifact.Revision != "main@sha1:"+second {
		t.Errorf("revision %s, want that of %s", o.Status.Artifact.Revision, second)
	}
}

// TestNoChangeCostsNothing: no clone, no status write, no event.
func TestNoChangeCostsNothing(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(nil)
	before := b.settle()
	_, packs := b.git.Requests()
	writes := b.writes
	b.event()
	after := b.settle()
	if _, now := b.git.Requests(); now != packs || b.writes != writes || b.event() != "" {
		t.Errorf("%d clones, %d writes", now-packs, b.writes-writes)
	}
	if before.ResourceVersion != after.ResourceVersion {
		t.Error("the object changed")
	}
}

func TestRequestIsHandledEvenWithoutChange(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(nil)
	b.settle()
	b.update(func(o *sourcev1.GitRepository) {
		o.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "now"}
	})
	if got := b.settle().Status.LastHandledReconcileAt; got != "now" {
		t.Errorf("last handled %q, want now", got)
	}
}

// TestFailureKeepsTheFormerArtifact also checks that a failure is told once, and its end too.
func TestFailureKeepsTheFormerArtifact(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(nil)
	former := b.settle().Status.Artifact
	b.event()
	b.git.SetFault(func(*http.Request) gitserver.Fault { return gitserver.Fault{Status: http.StatusUnauthorized} })
	for i := range 2 {
		if _, err := b.reconcile(); err == nil {
			t.Fatal("no error, so no back-off")
		}
		if got := b.event(); (i == 0) != strings.Contains(got, "Warning AuthenticationFailed") {
			t.Errorf("attempt %d: event %q, want a warning only at first", i, got)
		}
	}
	o := b.get()
	if o.Status.Artifact.Digest != former.Digest || !apimeta.IsStatusConditionTrue(o.Status.Conditions, sourcev1.FetchFailedCondition) {
		t.Errorf("status %+v", o.Status)
	}
	b.git.SetFault(nil)
	b.settle()
	if got := b.event(); !strings.Contains(got, "Normal Succeeded") {
		t.Errorf("event %q, want the recovery", got)
	}
}

// TestC25FetchIsCutHalfWay: the former artifact stays as it was, in the status and in the store.
func TestC25FetchIsCutHalfWay(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1", "b.yaml": "2"}, "first")
	b.create(nil)
	former := b.settle().Status.Artifact
	b.commit(map[string]string{"c.yaml": strings.Repeat("3", 5000)}, "second")
	b.git.SetFault(func(r *http.Request) gitserver.Fault {
		if gitserver.IsPack(r) {
			return gitserver.Fault{CutAfter: 120}
		}
		return gitserver.Fault{}
	})
	if _, err := b.reconcile(); err == nil {
		t.Fatal("a fetch that was cut succeeded")
	}
	if got := b.get().Status.Artifact; got.Digest != former.Digest || b.store.Verify(former) != nil {
		t.Errorf("artifact %+v, want the former one", got)
	}
	b.git.SetFault(nil)
	if got := b.settle().Status.Artifact; got.Revision == former.Revision {
		t.Error("the new revision was not published")
	}
}

func TestStorageIsMendedAfterARestart(t *testing.T) {
	damage := map[string]func(string) error{
		"none":    func(string) error { return nil },
		"missing": os.Remove,
		"changed": func(name string) error { return os.WriteFile(name, []byte("rubbish"), 0o600) },
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.commit(map[string]string{"a.yaml": "1"}, "first")
			b.create(nil)
			before := b.settle().Status.Artifact
			_, packs := b.git.Requests()
			if err := do(filepath.Join(b.dir, before.Path)); err != nil {
				t.Fatal(err)
			}
			b.open() // on another port
			after := b.settle().Status.Artifact
			if after.Digest != before.Digest || b.store.Verify(after) != nil {
				t.Errorf("artifact %+v, want what was there before", after)
			}
			if !strings.HasPrefix(after.URL, b.artifact.URL) {
				t.Errorf("URL %s, want one with the new port of %s", after.URL, b.artifact.URL)
			}
			if _, now := b.git.Requests(); (now != packs) != (name != "none") {
				t.Errorf("%d clones", now-packs)
			}
		})
	}
}

func TestIgnoreChangeBuildsAgain(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1", "docs/x.md": "2"}, "first")
	b.create(nil)
	before := b.settle().Status.Artifact
	b.update(func(o *sourcev1.GitRepository) { o.Spec.Ignore = ptr.To("docs/") })
	o := b.settle()
	if o.Status.Artifact.Digest == before.Digest || *o.Status.ObservedIgnore != "docs/" || b.store.Verify(o.Status.Artifact) != nil {
		t.Errorf("status %+v", o.Status)
	}
}

func TestFinalFailuresAreNotTriedAgain(t *testing.T) {
	tests := map[string]struct {
		change     func(*sourcev1.GitRepository)
		wantReason string
	}{
		"unsupported":  {func(o *sourcev1.GitRepository) { o.Spec.Provider = "gcp" }, "FieldNotSupported"},
		"range":        {func(o *sourcev1.GitRepository) { o.Spec.Reference.SemVer = "latest" }, "ReferenceInvalid"},
		"URL":          {func(o *sourcev1.GitRepository) { o.Spec.URL = "http://" }, sourcev1.URLInvalidReason},
		"short commit": {func(o *sourcev1.GitRepository) { o.Spec.Reference.Commit = "abc" }, "ReferenceInvalid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.create(tt.change)
			result, err := b.reconcile()
			if err != nil || result != (ctrl.Result{}) {
				t.Errorf("result %v, %v; want no other attempt", result, err)
			}
			c := apimeta.FindStatusCondition(b.get().Status.Conditions, meta.StalledCondition)
			if c == nil || c.Reason != tt.wantReason {
				t.Errorf("condition %+v, want Stalled for %s", c, tt.wantReason)
			}
			if listings, packs := b.git.Requests(); listings+packs > 0 {
				t.Error("the server was asked")
			}
		})
	}
}

// TestC49LinkOutOfTheRepository: refused by name, and looked at again at the interval.
func TestC49LinkOutOfTheRepository(t *testing.T) {
	b := newBench(t)
	_, err := b.git.CommitChange(repo, gitserver.Change{
		Branch: "main", Files: map[string]string{"a.yaml": "1"}, Links: map[string]string{"conf/away": "../../etc/passwd"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.create(nil)
	if result, err := b.reconcile(); err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("result %v, %v; want the interval", result, err)
	}
	o := b.get()
	c := apimeta.FindStatusCondition(o.Status.Conditions, meta.ReadyCondition)
	if o.Status.Artifact != nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "conf/away") {
		t.Errorf("artifact %v, condition %+v", o.Status.Artifact, c)
	}
}

func TestSecret(t *testing.T) {
	b := newBench(t)
	b.git.Username, b.git.Password = "user", "s3cr3t"
	b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(func(o *sourcev1.GitRepository) { o.Spec.SecretRef = &meta.LocalObjectReference{Name: "creds"} })
	if _, err := b.reconcile(); err == nil {
		t.Error("no error for a Secret that is missing")
	}
	c := apimeta.FindStatusCondition(b.get().Status.Conditions, meta.ReadyCondition)
	if c.Reason != sourcev1.AuthenticationFailedReason || !strings.Contains(c.Message, "ns/creds") {
		t.Errorf("condition %+v", c)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "creds"},
		Data:       map[string][]byte{"username": []byte("user"), "password": []byte("s3cr3t")},
	}
	if err := b.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.settle()
}

func TestSuspendedIsLeftAlone(t *testing.T) {
	b := newBench(t)
	b.create(func(o *sourcev1.GitRepository) { o.Spec.Suspend = true })
	if result, err := b.reconcile(); err != nil || result != (ctrl.Result{}) || b.writes > 0 {
		t.Errorf("result %v, %v, %d writes", result, err, b.writes)
	}
}

func TestDeletionRemovesTheArtifacts(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(nil)
	o := b.settle()
	b.update(func(o *sourcev1.GitRepository) { o.Spec.Suspend = true })
	if err := b.client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
		t.Errorf("object: %v, want it gone", err)
	}
	if err := b.store.Verify(o.Status.Artifact); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("artifact: %v, want it gone", err)
	}
}

func TestReplacedArtifactsAreCollected(t *testing.T) {
	b := newBench(t)
	var kept []*meta.Artifact
	b.create(nil)
	for i := range 4 {
		b.commit(map[string]string{"a.yaml": strings.Repeat("x", i)}, "change")
		kept = append(kept, b.settle().Status.Artifact)
	}
	for i, a := range kept {
		if there := b.store.Verify(a) == nil; there != (i >= 2) {
			t.Errorf("artifact %d of 4: there is %v; want the last two", i+1, there)
		}
	}
}

// TestEndOfTheProcessSaysNothing: a fetch that the shutdown broke off is no failure of the source.
func TestEndOfTheProcessSaysNothing(t *testing.T) {
	b := newBench(t)
	b.commit(map[string]string{"a.yaml": "1"}, "first")
	b.create(nil)
	ctx, cancel := context.WithCancel(t.Context())
	b.git.SetFault(func(*http.Request) gitserver.Fault { cancel(); return gitserver.Fault{Delay: time.Minute} })
	if _, err := b.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "app"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the end of the context", err)
	}
	if b.writes > 0 {
		t.Error("a status was written")
	}
}
