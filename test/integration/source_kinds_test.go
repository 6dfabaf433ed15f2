package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/zeebo/blake3"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// sourceController stands in for the controllers of Flux that publish artifacts: it writes the status of a source, and serves
// real archives over HTTP.
type sourceController struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	archives map[string][]byte
	status   int
	asked    int
}

func newSourceController(t *testing.T) *sourceController {
	t.Helper()
	c := &sourceController{t: t, archives: map[string][]byte{}}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

// ServeHTTP serves an archive, or the status that was set.
func (c *sourceController) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	content, ok := c.archives[r.URL.Path]
	switch {
	case c.status != 0:
		w.WriteHeader(c.status)
	case !ok:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(content) // a client that goes away is not the server's problem
	}
}

// answer makes the server answer with a status and nothing else; 0 ends that.
func (c *sourceController) answer(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

func (c *sourceController) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// store puts an archive under a path, and describes it as the status of a source does.
func (c *sourceController) store(path, revision string, files map[string]string) *fluxmeta.Artifact {
	c.t.Helper()
	content := pack(c.t, files)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.archives[path] = content
	return &fluxmeta.Artifact{
		Path: strings.TrimPrefix(path, "/"), URL: c.server.URL + path, Revision: revision,
		Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(content)), Size: ptr.To(int64(len(content))), LastUpdateTime: metav1.Now(),
	}
}

func (c *sourceController) content(path string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.archives[path]
}

// pack makes a tar.gz.
func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	entries := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := entries.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := entries.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(entries.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// newSource is a source of a kind, as a user creates it.
func newSource(namespace, kind string) client.Object {
	named := metav1.ObjectMeta{Namespace: namespace, Name: sourceName}
	interval := metav1.Duration{Duration: time.Hour}
	switch kind {
	case sourcev1.OCIRepositoryKind:
		return &sourcev1.OCIRepository{ObjectMeta: named, Spec: sourcev1.OCIRepositorySpec{URL: "oci://registry.example/app", Interval: interval}}
	case sourcev1.BucketKind:
		return &sourcev1.Bucket{ObjectMeta: named, Spec: sourcev1.BucketSpec{BucketName: "app", Endpoint: "s3.example", Interval: interval}}
	case sourcev1.ExternalArtifactKind:
		return &sourcev1.ExternalArtifact{ObjectMeta: named}
	default:
		return &sourcev1.GitRepository{ObjectMeta: named, Spec: sourcev1.GitRepositorySpec{URL: "https://git.example/app", Interval: interval}}
	}
}

// offer writes an artifact into the status of a source.
func (s *scenario) offer(kind string, a *fluxmeta.Artifact) {
	s.t.Helper()
	found := newSource(s.namespace, kind)
	if err := kube.Get(s.t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
		s.t.Fatal(err)
	}
	switch o := found.(type) {
	case *sourcev1.OCIRepository:
		o.Status.Artifact = a
	case *sourcev1.Bucket:
		o.Status.Artifact = a
	case *sourcev1.ExternalArtifact:
		o.Status.Artifact = a
	case *sourcev1.GitRepository:
		o.Status.Artifact = a
	}
	if err := kube.Status().Update(s.t.Context(), found); err != nil {
		s.t.Fatal(err)
	}
}

// besideFlux runs the Kustomization controller alone, as beside Flux's source-controller.
func besideFlux(o *app.Options) { o.Controllers = []string{app.ControllerKustomization} }

func newBeside(t *testing.T, kind string, changes ...func(*app.Options)) (*scenario, *sourceController) {
	t.Helper()
	s := &scenario{t: t, namespace: newNamespace(t)}
	t.Cleanup(func() { releaseAll(t, s.namespace) })
	runHoldfast(t, s.namespace, append([]func(*app.Options){besideFlux}, changes...)...)
	create(t, newSource(s.namespace, kind))
	return s, newSourceController(t)
}

func following(kind string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.SourceRef.Kind = kind
		ks.Spec.Interval.Duration, ks.Spec.RetryInterval.Duration = time.Hour, time.Hour
	}
}

// P12, P22: each kind of source is followed, and a new revision of it is taken at once.
func TestSourceKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{sourcev1.GitRepositoryKind, sourcev1.OCIRepositoryKind, sourcev1.BucketKind, sourcev1.ExternalArtifactKind} {
		t.Run("P12 P22 "+kind, func(t *testing.T) {
			t.Parallel()
			s, flux := newBeside(t, kind, func(o *app.Options) { o.Kustomization.ExternalArtifacts = true })
			s.deploy("app", following(kind))
			s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "Source artifact not found, retrying in 1s",
				"no controller has looked at "+kind+"/"+s.namespace+"/app")
			for _, revision := range []string{"v1@sha256:1", "v2@sha256:2"} {
				s.offer(kind, flux.store("/"+revision+".tar.gz", revision, map[string]string{"cm.yaml": configMap("cm", revision)}))
				s.awaitReady("app", revision)
			}
		})
	}
}

// P21: without its gate the kind ExternalArtifact is refused, by name.
func TestP21ExternalArtifactNeedsItsGate(t *testing.T) {
	t.Parallel()
	s, _ := newBeside(t, sourcev1.ExternalArtifactKind)
	s.deploy("app", following(sourcev1.ExternalArtifactKind))
	s.awaitMessage("app", "Stalled", metav1.ConditionTrue, "AccessDenied", "feature gate is disabled")
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "AccessDenied", "feature gate is disabled")
	s.awaitEvent("app", "Warning", "AccessDenied", "feature gate is disabled")
}

// P10, P11: a source is looked for in its own namespace, and taken as soon as it is there.
func TestP11SourceThatIsMissing(t *testing.T) {
	t.Parallel()
	s := &scenario{t: t, namespace: newNamespace(t)}
	t.Cleanup(func() { releaseAll(t, s.namespace) })
	runHoldfast(t, s.namespace, besideFlux)
	s.deploy("app", following(sourcev1.BucketKind))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", `buckets.source.toolkit.fluxcd.io "app" not found`, "Bucket/"+s.namespace+"/app")
	flux := newSourceController(t)
	create(t, newSource(s.namespace, sourcev1.BucketKind))
	s.offer(sourcev1.BucketKind, flux.store("/a.tar.gz", "1", map[string]string{"cm.yaml": configMap("cm", "1")}))
	s.awaitReady("app", "1")
}

// What an artifact server does wrong, and what comes of it.
func TestArtifactsOverHTTP(t *testing.T) {
	t.Parallel()
	const kind = sourcev1.OCIRepositoryKind
	files := map[string]string{"deploy/cm.yaml": configMap("cm", "1")}
	inDeploy := func(ks *v1.Kustomization) { ks.Spec.Path = "./deploy" }
	start := func(t *testing.T, changes ...func(*app.Options)) (*scenario, *sourceController) {
		t.Parallel()
		return newBeside(t, kind, changes...)
	}
	t.Run("P14 not found", func(t *testing.T) {
		s, flux := start(t)
		a := flux.store("/a.tar.gz", "1", files)
		flux.answer(http.StatusNotFound)
		s.offer(kind, a)
		s.deploy("app", following(kind), inDeploy)
		s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "Source is not ready, artifact not found, retrying in 1s")
		flux.answer(0)
		s.awaitReady("app", "1")
	})
	t.Run("P15 server error", func(t *testing.T) {
		s, flux := start(t)
		a := flux.store("/a.tar.gz", "1", files)
		flux.answer(http.StatusServiceUnavailable)
		s.offer(kind, a)
		s.deploy("app", following(kind), inDeploy)
		s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "503 Service Unavailable")
		flux.answer(0)
		s.awaitReady("app", "1")
	})
	t.Run("P15 without another try", func(t *testing.T) {
		s, flux := start(t, func(o *app.Options) { o.Kustomization.HTTPRetry = 0 })
		a := flux.store("/a.tar.gz", "1", files)
		flux.answer(http.StatusServiceUnavailable)
		s.offer(kind, a)
		s.deploy("app", following(kind), inDeploy)
		s.awaitEvent("app", "Warning", "ArtifactFailed", "503 Service Unavailable")
	})
	t.Run("P15 refused", func(t *testing.T) {
		s, flux := start(t)
		a := flux.store("/a.tar.gz", "1", files)
		flux.answer(http.StatusForbidden)
		s.offer(kind, a)
		s.deploy("app", following(kind), inDeploy)
		s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "403 Forbidden")
		s.awaitEvent("app", "Warning", "ArtifactFailed", "403 Forbidden")
	})
	t.Run("P16 wrong digest", func(t *testing.T) {
		s, flux := start(t)
		a := flux.store("/a.tar.gz", "1", files)
		a.Digest = "sha256:" + strings.Repeat("0", 64)
		s.offer(kind, a)
		s.deploy("app", following(kind), inDeploy)
		s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "artifact has digest sha256:")
	})
	sums := map[string]func([]byte) string{
		"sha384": func(b []byte) string { return fmt.Sprintf("sha384:%x", sha512.Sum384(b)) },
		"sha512": func(b []byte) string { return fmt.Sprintf("sha512:%x", sha512.Sum512(b)) },
		"blake3": func(b []byte) string { return fmt.Sprintf("blake3:%x", blake3.Sum256(b)) },
	}
	for name, sum := range sums {
		t.Run("P16 "+name, func(t *testing.T) {
			s, flux := start(t)
			a := flux.store("/a.tar.gz", "1", files)
			a.Digest = sum(flux.content("/a.tar.gz"))
			s.offer(kind, a)
			s.deploy("app", following(kind), inDeploy)
			s.awaitReady("app", "1")
		})
	}
	t.Run("P18 another host", func(t *testing.T) {
		flux := newSourceController(t)
		host := strings.TrimPrefix(flux.server.URL, "http://")
		s, _ := start(t, func(o *app.Options) { o.Kustomization.SourceHost = host })
		a := flux.store("/a.tar.gz", "1", files)
		a.URL = "http://source-controller.flux-system.svc.cluster.local./a.tar.gz"
		s.offer(kind, a)
		s.deploy("app", following(kind), inDeploy)
		s.awaitReady("app", "1")
	})
	t.Run("P19 no such path", func(t *testing.T) {
		s, flux := start(t)
		s.offer(kind, flux.store("/a.tar.gz", "1", files))
		s.deploy("app", following(kind), func(ks *v1.Kustomization) { ks.Spec.Path = "./elsewhere" })
		s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "kustomization path not found: ")
		s.change("app", func(ks *v1.Kustomization) { ks.Spec.Path = "../../etc" })
		s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", "leads out of the artifact")
	})
	t.Run("nothing is fetched twice", func(t *testing.T) {
		s, flux := start(t)
		s.offer(kind, flux.store("/a.tar.gz", "1", files))
		s.deploy("app", following(kind), inDeploy)
		s.awaitReady("app", "1")
		before := flux.requests()
		s.change("app", func(ks *v1.Kustomization) {
			ks.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: "now"}
		})
		s.await("app", "reconciled again", func(ks *v1.Kustomization) error {
			if got := ks.Status.GetLastHandledReconcileRequest(); got != "now" {
				return fmt.Errorf("handled is %q", got)
			}
			return nil
		})
		if now := flux.requests(); now != before {
			t.Errorf("%d downloads for one artifact", now)
		}
	})
}

// Beside a living controller of Flux with the same work holdfast does not start, unless it is told to.
func TestRivalEndsTheStart(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kustomize-controller-leader-election"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("kustomize-controller-5d_1"), LeaseDurationSeconds: ptr.To(int32(3600)), RenewTime: ptr.To(metav1.NowMicro()),
		},
	})
	options := testOptions(t, namespace)
	besideFlux(&options)
	err := app.Run(t.Context(), env.Config, options)
	if err == nil || !strings.Contains(err.Error(), "kustomize-controller is at work") || !strings.Contains(err.Error(), "--takeover") {
		t.Errorf("error %v, want the rival named", err)
	}
	options.Takeover = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := app.Run(ctx, env.Config, options); err != nil {
		t.Errorf("told to take over: %v", err)
	}
}
