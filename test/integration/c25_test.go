package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// TestC25: a fetch yields a damaged or nearly empty archive. What it lacks must not be taken for removed: nothing is
// applied or pruned, and the message names the digest. A good artifact makes up for it.
func TestC25(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Controllers = []string{app.ControllerKustomization} })
	server := newArtifactServer(t)
	good := archive(t, map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	cut := archive(t, map[string]string{"a.yaml": configMap("a", "2")})
	cut = cut[:len(cut)/2]
	nothing := archive(t, nil)
	tests := map[string]struct {
		content   []byte
		announced string // the digest of the content when empty
		reason    string
	}{
		"cut":   {content: cut, reason: "ArtifactFailed"},
		"empty": {content: nothing, reason: string(v1.RetainedAwaitingConfirmation)},
		"other": {content: archive(t, map[string]string{"a.yaml": configMap("a", "3")}), announced: digestOf([]byte("other")), reason: "ArtifactFailed"},
	}
	for name := range tests {
		source := s.source(name)
		server.publish(t, source, "r1", good, "")
		s.deploy(name, func(ks *v1.Kustomization) {
			ks.Spec.SourceRef.Name, ks.Spec.NamePrefix = name, name+"-"
		})
	}
	for name, test := range tests {
		s.awaitReady(name, "r1")
		a, b := s.cm(name+"-a"), s.cm(name+"-b")
		uids := [2]string{s.uid(a), s.uid(b)}
		digest := server.publish(t, s.getSource(name), "r2", test.content, test.announced)
		kind, status := "Ready", metav1.ConditionFalse
		ks := s.awaitMessage(name, kind, status, test.reason, digest)
		if err := inInventory(ks, s.cmID(a.Name), s.cmID(b.Name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.request(name)
		s.sameUID(a, uids[0])
		s.sameUID(b, uids[1])
		if a.Data["k"] != "1" {
			t.Errorf("%s: something of the damaged artifact was applied: %v", name, a.Data)
		}
		server.publish(t, s.getSource(name), "r3", archive(t, map[string]string{"a.yaml": configMap("a", "4")}), "")
		s.awaitReady(name, "r3")
		eventuallyGone(t, within, b)
	}
}

// TestC25NotThereYet: the archive of a new revision answers 404 for a moment. It is tried again, without an alarm.
func TestC25NotThereYet(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Controllers = []string{app.ControllerKustomization} })
	server := newArtifactServer(t)
	source := s.source(sourceName)
	server.publish(t, source, "r1", archive(t, map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")}), "")
	s.deploy("app")
	s.awaitReady("app", "r1")
	server.failNext(2)
	server.publish(t, source, "r2", archive(t, map[string]string{"a.yaml": configMap("a", "2")}), "")
	s.awaitReady("app", "r2")
	eventuallyGone(t, within, s.cm("b"))
	if left := server.failuresLeft(); left != 0 {
		t.Errorf("%d answers of 404 were not asked for", left)
	}
	events, err := s.eventsOf(t.Context(), "app")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == "Warning" {
			t.Errorf("an alarm: %s %s", e.Reason, e.Message)
		}
	}
}

// TestC25SourceGone: the source object is deleted; its Kustomization keeps all and says which source it misses.
func TestC25SourceGone(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Controllers = []string{app.ControllerKustomization} })
	server := newArtifactServer(t)
	source := s.source(sourceName)
	server.publish(t, source, "r1", archive(t, map[string]string{"a.yaml": configMap("a", "1")}), "")
	s.deploy("app")
	s.awaitReady("app", "r1")
	if err := kube.Delete(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	s.request("app")
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "GitRepository/"+s.namespace+"/"+sourceName, "not found", "spec.sourceRef")
	if err := inInventory(ks, s.cmID("a")); err != nil {
		t.Error(err)
	}
	s.stays(s.cm("a"))
	server.publish(t, s.source(sourceName), "r2", archive(t, map[string]string{"a.yaml": configMap("a", "2")}), "")
	s.awaitReady("app", "r2")
}

// artifactServer serves archives as a source controller does.
type artifactServer struct {
	*httptest.Server

	mu       sync.Mutex
	archives map[string][]byte
	failures int
}

func newArtifactServer(t *testing.T) *artifactServer {
	t.Helper()
	a := &artifactServer{archives: map[string][]byte{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		content, ok := a.archives[r.URL.Path]
		if a.failures > 0 {
			a.failures--
			ok = false
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		// A failed write is the client's affair.
		_, _ = w.Write(content)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *artifactServer) failNext(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = n
}

func (a *artifactServer) failuresLeft() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failures
}

// publish announces content in the status of a source, under a digest that may be another one, and returns the digest.
func (a *artifactServer) publish(t *testing.T, source *sourcev1.GitRepository, revision string, content []byte, digest string) string {
	t.Helper()
	if digest == "" {
		digest = digestOf(content)
	}
	path := fmt.Sprintf("/%s/%s/%s.tar.gz", source.Namespace, source.Name, revision)
	a.mu.Lock()
	a.archives[path] = content
	a.mu.Unlock()
	source.Status.Artifact = &meta.Artifact{
		Path: path, URL: a.URL + path, Revision: revision, Digest: digest, LastUpdateTime: metav1.Now(),
	}
	source.Status.ObservedGeneration = source.Generation
	apimeta.SetStatusCondition(&source.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "stored artifact", ObservedGeneration: source.Generation,
	})
	if err := kube.Status().Update(t.Context(), source); err != nil {
		t.Fatalf("announce the artifact: %v", err)
	}
	return digest
}

// source creates a GitRepository that nothing reconciles.
func (s *scenario) source(name string) *sourcev1.GitRepository {
	s.t.Helper()
	source := &sourcev1.GitRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       sourcev1.GitRepositorySpec{URL: "https://git.invalid/app", Interval: metav1.Duration{Duration: time.Hour}},
	}
	create(s.t, source)
	return source
}

func (s *scenario) getSource(name string) *sourcev1.GitRepository {
	s.t.Helper()
	source := &sourcev1.GitRepository{}
	if err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, source); err != nil {
		s.t.Fatal(err)
	}
	return source
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// archive packs files.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	w := tar.NewWriter(zipped)
	var errs []error
	for name, content := range files {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := w.Write([]byte(content))
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close(), zipped.Close())...); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
