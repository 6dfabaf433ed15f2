package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// newBesideProcess is newBeside with `holdfast run` as a process of its own, as it is installed.
func newBesideProcess(t *testing.T, flags ...string) (*scenario, *sourceController, *running) {
	t.Helper()
	s := &scenario{t: t, namespace: newNamespace(t)}
	t.Cleanup(func() { releaseAll(t, s.namespace) })
	r := startProcess(t, s.namespace, env.Kubeconfig, append([]string{"--controllers=kustomization"}, flags...)...)
	create(t, newSource(s.namespace, sourcev1.OCIRepositoryKind))
	return s, newSourceController(t), r
}

// page reads what the process shows under a path of its metrics address.
func (r *running) page(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.metrics+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, response.Status)
	}
	return string(content), err
}

// P175, P176, P177, P178, P179: the series that Flux's dashboards and alerts read, with their labels and buckets, and the
// profiles. Where Flux has no samples, or what holdfast does not have (tokens to cache), there is no series.
func TestParityOfMetrics(t *testing.T) {
	t.Parallel()
	s, flux, r := newBesideProcess(t)
	s.offer(sourcev1.OCIRepositoryKind, flux.store("/a.tar.gz", "1", map[string]string{"cm.yaml": configMap("cm", "1")}))
	s.deploy("app", following(sourcev1.OCIRepositoryKind))
	ks := s.awaitReady("app", "1")
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap"} {
		if _, err := r.page(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	own := fmt.Sprintf(`{kind="Kustomization",name="app",namespace=%q`, s.namespace)
	series := func(ctx context.Context) (string, error) { return r.page(ctx, "/metrics") }
	var all string
	eventually(t, within, "the duration is measured", func(ctx context.Context) (err error) {
		if all, err = series(ctx); err == nil && !strings.Contains(all, "gotk_reconcile_duration_seconds_count"+own+"}") {
			err = fmt.Errorf("only\n%s", linesWith(all, "gotk_"))
		}
		return err
	})
	buckets := strings.Split(linesWith(all, "gotk_reconcile_duration_seconds_bucket"+own), "\n")
	bounds := prometheus.ExponentialBucketsRange(0.01, 1800, 10)
	if len(buckets) != len(bounds)+1 {
		t.Fatalf("the buckets are\n%s", strings.Join(buckets, "\n"))
	}
	for i, bound := range bounds {
		if le := fmt.Sprintf(`le="%s"`, strconv.FormatFloat(bound, 'g', -1, 64)); !strings.Contains(buckets[i], le) {
			t.Errorf("bucket %d is %s, want %s", i, buckets[i], le)
		}
	}
	for _, want := range []string{
		`controller_runtime_reconcile_total{controller="kustomization",result="success"}`,
		`controller_runtime_reconcile_errors_total{controller="kustomization"}`,
		`controller_runtime_max_concurrent_reconciles{controller="kustomization"} 4`,
		`workqueue_depth{controller="kustomization"`,
		`workqueue_adds_total{controller="kustomization"`,
		`rest_client_requests_total{code="200"`,
		"gotk_token_cached_items 0",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("there is no series %s", want)
		}
	}
	for _, absent := range []string{"gotk_reconcile_condition{", "gotk_suspend_status{"} {
		if strings.Contains(all, absent) {
			t.Errorf("there are samples of %s:\n%s", absent, linesWith(all, absent))
		}
	}
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventually(t, within, "the series goes with the object", func(ctx context.Context) error {
		all, err := series(ctx)
		if err == nil && strings.Contains(all, own) {
			err = fmt.Errorf("there is\n%s", linesWith(all, own))
		}
		return err
	})
}

// linesWith returns the lines that have a text.
func linesWith(text, part string) string {
	var found []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "\n")
}

// P186, P208, P232: the log is JSON, each line of a reconciliation says of what and at which revision, and an apply is an object
// of objects and what was done to them, grouped with the gate.
func TestParityOfLog(t *testing.T) {
	t.Parallel()
	for gate, want := range map[string]func(namespace string) string{
		"GroupChangeLog=false": func(ns string) string { return fmt.Sprintf(`{"ConfigMap/%s/cm":"created"}`, ns) },
		"GroupChangeLog=true":  func(ns string) string { return fmt.Sprintf(`{"created":["ConfigMap/%s/cm"]}`, ns) },
	} {
		t.Run(gate, func(t *testing.T) {
			t.Parallel()
			s, flux, r := newBesideProcess(t, "--feature-gates="+gate)
			s.offer(sourcev1.OCIRepositoryKind, flux.store("/a.tar.gz", "1", map[string]string{"cm.yaml": configMap("cm", "1")}))
			s.deploy("app", following(sourcev1.OCIRepositoryKind))
			s.awaitReady("app", "1")
			eventually(t, within, "the log tells of the apply", func(context.Context) error {
				content, err := os.ReadFile(r.log)
				if err != nil {
					return err
				}
				for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
					var line struct {
						Level, Msg, Controller, Namespace, Name, ReconcileID, Revision string
						Output                                                         json.RawMessage
					}
					if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "server-side apply completed" {
						continue
					}
					if line.Level != "info" || line.Controller != "kustomization" || line.Namespace != s.namespace || line.Name != "app" ||
						line.ReconcileID == "" || line.Revision != "1" || string(line.Output) != want(s.namespace) {
						t.Errorf("the line is %s, want output %s", lines.Text(), want(s.namespace))
					}
					return nil
				}
				return fmt.Errorf("there is no such line in\n%s", content)
			})
		})
	}
}

// receiver stands in for Flux's notification-controller. It refuses the first post of each event.
type receiver struct {
	mu     sync.Mutex
	tried  map[string]int
	events []eventv1.Event
	raw    []string
	status func(e eventv1.Event, tries int) int
}

// ServeHTTP takes an event or refuses it.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	content, _ := io.ReadAll(request.Body) // a post that breaks off is no event, and comes again
	var e eventv1.Event
	if request.Method != http.MethodPost || json.Unmarshal(content, &e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried[e.Message]++
	status := r.status(e, r.tried[e.Message])
	if status == http.StatusAccepted {
		r.events, r.raw = append(r.events, e), append(r.raw, string(content))
	}
	w.WriteHeader(status)
}

// of returns the event with a message that begins so, and how often it was posted.
func (r *receiver) of(message string) (*eventv1.Event, string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.events {
		if strings.HasPrefix(e.Message, message) {
			return &e, r.raw[i], r.tried[e.Message]
		}
	}
	for m, n := range r.tried {
		if strings.HasPrefix(m, message) {
			return nil, "", n
		}
	}
	return nil, "", 0
}

// P137, P168, P169, P172, P174, P198: what a receiver of events gets is Flux's form. One that fails is asked again, one that says that it
// has the event already is not.
func TestParityOfPostedEvents(t *testing.T) {
	t.Parallel()
	to := &receiver{tried: map[string]int{}, status: func(e eventv1.Event, tries int) int {
		switch {
		case strings.HasPrefix(e.Message, "ConfigMap/"):
			return http.StatusTooManyRequests
		case tries == 1:
			return http.StatusInternalServerError
		}
		return http.StatusAccepted
	}}
	server := httptest.NewServer(to)
	t.Cleanup(server.Close)
	s, flux, _ := newBesideProcess(t, "--events-addr="+server.URL)
	a := flux.store("/a.tar.gz", "1", map[string]string{"cm.yaml": configMap("cm", "1")})
	a.Metadata = map[string]string{"org.opencontainers.image.revision": "v1.2.3@sha1:abc"}
	s.offer(sourcev1.OCIRepositoryKind, a)
	s.deploy("app", following(sourcev1.OCIRepositoryKind), func(ks *v1.Kustomization) {
		ks.Annotations = map[string]string{"event.toolkit.fluxcd.io/team": "shop", "other.example.com/x": "y"}
	})
	ks := s.awaitReady("app", "1")
	if ks.Status.LastAppliedOriginRevision != "v1.2.3@sha1:abc" || ks.Status.History[0].Metadata["originRevision"] != "v1.2.3@sha1:abc" {
		t.Errorf("the origin revision is %q, in the history %v", ks.Status.LastAppliedOriginRevision, ks.Status.History[0].Metadata)
	}
	var finished *eventv1.Event
	var raw string
	eventually(t, within, "the end is posted", func(context.Context) error {
		var tries int
		if finished, raw, tries = to.of("Reconciliation finished in "); finished == nil {
			return fmt.Errorf("it was tried %d times", tries)
		}
		return nil
	})
	want := eventv1.Event{
		InvolvedObject: corev1.ObjectReference{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization",
			Namespace: s.namespace, Name: "app", UID: ks.UID, ResourceVersion: finished.InvolvedObject.ResourceVersion},
		Severity: "info", Timestamp: finished.Timestamp, Message: finished.Message, Reason: "ReconciliationSucceeded",
		ReportingController: "kustomize-controller", ReportingInstance: finished.ReportingInstance,
		Metadata: map[string]string{
			"kustomize.toolkit.fluxcd.io/revision": "1", "kustomize.toolkit.fluxcd.io/originRevision": "v1.2.3@sha1:abc",
			"kustomize.toolkit.fluxcd.io/commit_status": "update", "event.toolkit.fluxcd.io/team": "shop",
		},
	}
	if got, want := asJSON(t, finished), asJSON(t, want); got != want {
		t.Errorf("the event is\n%s\nwant\n%s\nas posted\n%s", got, want, raw)
	}
	if host, err := os.Hostname(); err != nil || finished.ReportingInstance != host || finished.Timestamp.IsZero() {
		t.Errorf("it is from %q at %v", finished.ReportingInstance, finished.Timestamp)
	}
	if _, _, tries := to.of("ConfigMap/" + s.namespace + "/cm created"); tries != 1 {
		t.Errorf("an event that the receiver had already was posted %d times", tries)
	}

	// A failure is of severity error.
	s.change("app", at("./none"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "kustomization path not found: ")
	eventually(t, within, "the failure is posted", func(context.Context) error {
		failed, _, tries := to.of("kustomization path not found: ")
		switch {
		case failed == nil:
			return fmt.Errorf("it was tried %d times", tries)
		case failed.Severity != "error" || failed.Reason != "ArtifactFailed":
			t.Errorf("it is %s %s", failed.Severity, failed.Reason)
		}
		return nil
	})
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	content, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
