package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// updateGolden rewrites the golden files: go test ./test/integration -run TestGolden -update, then review the diff.
var updateGolden = flag.Bool("update", false, "rewrite the golden files in testdata")

// goldenCase is a Kustomization that ends in a state, and the state: a condition, and how many events tell of it.
type goldenCase struct {
	alter  func(*v1.Kustomization)
	kind   string
	status metav1.ConditionStatus
	reason string
	events int
}

// goldenFiles are the manifests that the cases are at, by their path.
func goldenFiles() map[string]string {
	return map[string]string{
		"good/cm.yaml":    configMap("cm", "1"),
		"good/dep.yaml":   replaceOnce(deployment("web", goodImage, ""), "replicas: 2", "replicas: 0"),
		"single/cm.yaml":  configMap("cm", "1"),
		"syntax/cm.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm\n",
		"invalid/ok.yaml": configMap("ok", "1"),
		"invalid/no.yaml": replaceOnce(deployment("web", goodImage, ""), "replicas: 2", "replicas: -1"),
	}
}

func dependsOn(name, readyExpr string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: name, ReadyExpr: readyExpr}}
	}
}

func sourceIs(kind, namespace, name string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.SourceRef = fluxv1.CrossNamespaceSourceReference{Kind: kind, Namespace: namespace, Name: name}
	}
}

func all(changes ...func(*v1.Kustomization)) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		for _, change := range changes {
			change(ks)
		}
	}
}

// goldenCases are one or more for each reason of Flux's conditions, but those that don't occur, and HealthCheckCanceled, which passes
// at once and has a test of its own.
func goldenCases() map[string]goldenCase {
	const failed, open = metav1.ConditionFalse, metav1.ConditionUnknown
	return map[string]goldenCase{
		"ReconciliationSucceeded":           {at("good"), "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", 3},
		"ReconciliationSucceeded-unwaited":  {all(at("single"), unwaited), "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", 2},
		"Progressing":                       {all(at("single"), expressionOn("", "data.k == '2'")), "Healthy", open, "Progressing", 1},
		"HealthCheckFailed":                 {all(at("single"), expressionOn("data.k == '1'", "data.k == '2'")), "Ready", failed, "HealthCheckFailed", 2},
		"ReconciliationFailed":              {at("invalid"), "Ready", failed, "ReconciliationFailed", 1},
		"BuildFailed":                       {at("syntax"), "Ready", failed, "BuildFailed", 1},
		"ArtifactFailed-path":               {at("./no/such/dir"), "Ready", failed, "ArtifactFailed", 1},
		"ArtifactFailed-source-not-found":   {sourceIs("Bucket", "", "none"), "Ready", failed, "ArtifactFailed", 0},
		"ArtifactFailed-artifact-not-found": {sourceIs("Bucket", "", sourceName), "Ready", failed, "ArtifactFailed", 0},
		"DependencyNotReady":                {dependsOn("none", ""), "Ready", failed, "DependencyNotReady", 1},
		"AccessDenied":                      {sourceIs("GitRepository", "elsewhere", sourceName), "Stalled", metav1.ConditionTrue, "AccessDenied", 1},
		"AccessDenied-feature-gate":         {sourceIs("ExternalArtifact", "", sourceName), "Stalled", metav1.ConditionTrue, "AccessDenied", 1},
		"InvalidCELExpression":              {expressionOn("", "data.k =="), "Stalled", metav1.ConditionTrue, "InvalidCELExpression", 1},
		"InvalidCELExpression-readyExpr":    {dependsOn("reconciliationsucceeded", "dep."), "Stalled", metav1.ConditionTrue, "InvalidCELExpression", 1},
		"FeatureGateDisabled": {func(ks *v1.Kustomization) {
			ks.Spec.Decryption = &fluxv1.Decryption{Provider: "sops", ServiceAccountName: "sops"}
		}, "Stalled", metav1.ConditionTrue, "FeatureGateDisabled", 1},
		"PruneFailed": {all(at("."), sourceIs("OCIRepository", "", sourceName)), "Ready", failed, "PruneFailed", 5},
	}
}

// P130-P136, P139, P140, P167, P168, P170-P173: the state of a Kustomization for each reason of its conditions, and its events, as
// their readers see them. Only what holdfast adds is left out: status.rollout.
func TestGoldenStates(t *testing.T) {
	t.Parallel()
	s := &scenario{t: t, namespace: newNamespace(t)}
	t.Cleanup(func() { releaseAll(t, s.namespace) })
	s.checkConformance()
	runHoldfast(t, s.namespace, besideFlux, func(o *app.Options) {
		o.Kustomization.NoCrossNamespaceRefs = true
		o.Kustomization.RequeueDependency = 30 * time.Second
	})
	flux := newSourceController(t)
	create(t, newSource(s.namespace, sourcev1.BucketKind), newSource(s.namespace, sourcev1.GitRepositoryKind), newSource(s.namespace, sourcev1.OCIRepositoryKind))
	s.offer(sourcev1.GitRepositoryKind, flux.store("/git.tar.gz", "main@sha1:1f0c9d2", goldenFiles()))
	first := flux.store("/oci1.tar.gz", "latest@sha256:1", map[string]string{"a.yaml": configMap("a", "1"), "kept.yaml": configMap("kept", "1")})
	first.Metadata = map[string]string{"org.opencontainers.image.revision": "main@sha1:0aa91ce"}
	s.offer(sourcev1.OCIRepositoryKind, first)
	cases := goldenCases()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		s.deploy(goldenName(name), following(sourcev1.GitRepositoryKind), func(ks *v1.Kustomization) { ks.Spec.NamePrefix = ks.Name + "-" }, cases[name].alter)
	}
	s.awaitReady(goldenName("PruneFailed"), first.Revision)
	s.deny("DELETE", "configmaps", "!oldObject.metadata.name.endsWith('-kept')", "kept for the auditors")
	eventually(t, within, "the policy is in force", func(ctx context.Context) error {
		if err := kube.Delete(ctx, s.cm(goldenName("PruneFailed")+"-kept"), client.DryRunAll); err == nil {
			return errors.New("the deletion is accepted")
		}
		return nil
	})
	second := flux.store("/oci2.tar.gz", "latest@sha256:2", map[string]string{"a.yaml": configMap("a", "1")})
	second.Metadata = map[string]string{"org.opencontainers.image.revision": "main@sha1:8be41a7"}
	s.offer(sourcev1.OCIRepositoryKind, second)

	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		s.awaitCondition(goldenName(name), c.kind, c.status, c.reason)
		s.compare(name, c.events)
	}
}

// goldenName is the name of the Kustomization of a case.
func goldenName(name string) string { return strings.ToLower(name) }

// goldenState is what a golden file shows.
type goldenState struct {
	Status map[string]any `json:"status"`
	Events []goldenEvent  `json:"events"`
}

type goldenEvent struct {
	Type        string            `json:"type"`
	Reason      string            `json:"reason"`
	Message     string            `json:"message"`
	From        string            `json:"from"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// compare compares a Kustomization and its events with the golden file. Events are told one by one, and may come after the state.
func (s *scenario) compare(name string, events int) {
	s.t.Helper()
	var got string
	eventually(s.t, within, fmt.Sprintf("%d events tell of %s", events, name), func(ctx context.Context) error {
		list, err := s.eventsOf(ctx, goldenName(name))
		if err != nil {
			return err
		}
		got = s.golden(s.mustGet(goldenName(name)), list)
		if len(list) != events {
			return fmt.Errorf("there are %d in\n%s", len(list), got)
		}
		return nil
	})
	compareGolden(s.t, name, got)
}

// compareGolden compares a text with a golden file.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".yaml")
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v: run the test with -update, and review what it writes", err)
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// golden is the text of a golden file.
func (s *scenario) golden(ks *v1.Kustomization, events []corev1.Event) string {
	s.t.Helper()
	state := goldenState{Status: asMap(s.t, ks.Status), Events: []goldenEvent{}}
	delete(state.Status, "rollout")
	// The names of events end in the time when they were made.
	slices.SortFunc(events, func(a, b corev1.Event) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range events {
		from := e.ReportingController
		if from == "" {
			from = e.Source.Component
		}
		state.Events = append(state.Events, goldenEvent{Type: e.Type, Reason: e.Reason, Message: e.Message, From: from, Annotations: e.Annotations})
	}
	content, err := yaml.Marshal(state)
	if err != nil {
		s.t.Fatal(err)
	}
	text := strings.ReplaceAll(string(content), s.namespace, "NAMESPACE")
	for _, r := range normal {
		text = r.find.ReplaceAllString(text, r.write)
	}
	return text
}

// normal is what differs from run to run, and how it is written.
var normal = []struct {
	find  *regexp.Regexp
	write string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:DIGEST"},
	{regexp.MustCompile(`sha1:[0-9a-f]{40}`), "sha1:COMMIT"},
	{regexp.MustCompile(`(lastHandledReconcileAt: )\S+`), "${1}REQUEST"},
	{regexp.MustCompile(`deny-[a-z0-9]{6}`), "POLICY"},
	{regexp.MustCompile(`(lastReconciledDuration: )\S+`), "${1}DURATION"},
	{regexp.MustCompile(`(finished in |passed in |failed after )[0-9.]+[a-zµ]+`), "${1}DURATION"},
}
