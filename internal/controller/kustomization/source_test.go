package kustomization

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
	"github.com/holdfast-gitops/holdfast/internal/build"
)

// TestP22OnlyANewRevisionTriggers: not a new digest of the same revision, and nobody who is ready at it.
func TestP22OnlyANewRevisionTriggers(t *testing.T) {
	offering := func(a *fluxmeta.Artifact) *sourcev1.OCIRepository {
		return &sourcev1.OCIRepository{Status: sourcev1.OCIRepositoryStatus{Artifact: a}}
	}
	one, again, two := &fluxmeta.Artifact{Revision: "1", Digest: "a"}, &fluxmeta.Artifact{Revision: "1", Digest: "b"}, &fluxmeta.Artifact{Revision: "2"}
	for name, tt := range map[string]struct {
		before, after *fluxmeta.Artifact
		want          bool
	}{
		"the first": {nil, one, true}, "another": {one, two, true}, "the same": {one, one, false}, "another digest": {one, again, false}, "none": {one, nil, false},
	} {
		if got := revisionChanged().Update(crevent.UpdateEvent{ObjectOld: offering(tt.before), ObjectNew: offering(tt.after)}); got != tt.want {
			t.Errorf("%s: triggers is %v", name, got)
		}
	}
	ks := newKustomization()
	ks.Status.LastAttemptedRevision = "1"
	if isUpToDate(ks, one) {
		t.Error("one that is not ready passes for up to date")
	}
	ks.Status.Conditions = []metav1.Condition{{Type: fluxmeta.ReadyCondition, Status: metav1.ConditionTrue}}
	if !isUpToDate(ks, one) || isUpToDate(ks, two) || isUpToDate(ks, nil) {
		t.Error("one that is ready at a revision is up to date with that one and no other")
	}
}

// TestP23DependenciesAreQueuedFirst, with those that follow another source; a circle holds up nobody.
func TestP23DependenciesAreQueuedFirst(t *testing.T) {
	of := func(name string, dependsOn ...string) v1.Kustomization {
		ks := newKustomization()
		ks.Name = name
		for _, d := range dependsOn {
			ks.Spec.DependsOn = append(ks.Spec.DependsOn, fluxv1.DependencyReference{Name: d})
		}
		return *ks
	}
	names := func(list ...v1.Kustomization) ([]string, error) {
		requests, err := inDependencyOrder(list)
		var out []string
		for _, r := range requests {
			if r.Namespace != "flux-system" {
				t.Errorf("%s is in namespace %q", r.Name, r.Namespace)
			}
			out = append(out, r.Name)
		}
		return out, err
	}
	got, err := names(of("c", "b"), of("b", "a", "elsewhere"), of("a"))
	at := func(name string) int { return slices.Index(got, name) }
	if err != nil || len(got) != 4 || at("a") > at("b") || at("elsewhere") > at("b") || at("b") > at("c") {
		t.Errorf("order %v, %v", got, err)
	}
	got, err = names(of("a", "b"), of("b", "a"), of("c"))
	if err == nil || len(got) != 3 {
		t.Errorf("queued %v, %v; want all three, and the circle named", got, err)
	}
}

// TestP20WorkingCopyIsRemoved whatever comes of the build, once nobody works with it any more.
func TestP20WorkingCopyIsRemoved(t *testing.T) {
	content := archive(t, map[string]string{"a.yaml": "kind: x"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content) // a client that goes away is not the server's problem
	}))
	defer server.Close()
	p := passOn(newKustomization())
	p.artifact = &fluxmeta.Artifact{URL: server.URL + "/a.tar.gz", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(content)), Revision: "1"}
	shelf := artifact.NewShelf(artifact.NewReader(artifact.ReaderOptions{}))
	shelf.Idle = 0
	p.Artifacts = shelf
	var root string
	p.Build = func(dir string, _ *v1.Kustomization, _ build.Options) (build.Result, error) {
		root = dir
		if _, err := os.Stat(filepath.Join(dir, "a.yaml")); err != nil {
			t.Error(err)
		}
		return build.Result{}, errors.New("broken")
	}
	if _, out := p.render(t.Context(), inputs{}); out == nil || !strings.Contains(out.message, "broken") {
		t.Fatalf("outcome %+v, want the failure of the build", out)
	}
	copied := filepath.Dir(root)
	if !strings.HasPrefix(filepath.Base(copied), "kustomization-") || filepath.Dir(copied) != filepath.Clean(os.TempDir()) {
		t.Errorf("the working copy was %s", copied)
	}
	if _, err := os.Stat(copied); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the working copy is still there: %v", err)
	}
}

// archive is a tar.gz as source controllers make it.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	entries := tar.NewWriter(zipped)
	for name, content := range files {
		if err := entries.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := entries.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(entries.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// TestP15DownloadIsTriedAgain as often as --http-retry says, and is reported then; what is no fault of the server at once.
func TestP15DownloadIsTriedAgain(t *testing.T) {
	p := passOn(newKustomization())
	p.HTTPRetry, p.RequeueDependency = 2, now.Sub(now.Add(-maxFetchBackoff))
	passing := &artifact.TransientError{URL: "http://x", Err: errors.New("the server answered 503")}
	for attempt := range 2 {
		if out := p.fetchFailed(passing); out.state != stateWaiting || out.after > maxFetchBackoff {
			t.Errorf("attempt %d: %+v, want it to be tried again", attempt+1, out)
		}
	}
	if out := p.fetchFailed(passing); out.state != stateFailed || out.reason != fluxmeta.ArtifactFailedReason || out.after > maxFetchBackoff {
		t.Errorf("after the last attempt: %+v, want the failure", out)
	}
	if out := p.fetchFailed(errors.New("the server answered 403")); out.state != stateFailed || out.after != p.retryInterval() {
		t.Errorf("refused: %+v, want the failure at once", out)
	}
}
