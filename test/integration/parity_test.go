package integration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// One revision that succeeds, as Flux's users and tools see it: conditions, their order and texts, status fields, inventory
// and events. The numbers are those of the parity list. P142: this and most others of these tests check every state that they see
// (conforms).
func TestParityOfSuccess(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	var mu sync.Mutex
	var seen []string
	s.watchKustomizations(func(ks *v1.Kustomization) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range messages(ks) {
			if !slices.Contains(seen, m) {
				seen = append(seen, m)
			}
		}
	})
	rev := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) {
		ks.Annotations = map[string]string{"event.toolkit.fluxcd.io/team": "shop"}
	})
	ks := s.awaitReady("web", rev)
	for _, want := range []string{
		"Ready=Unknown Progressing: Reconciliation in progress", // P131
		"Reconciling=True Progressing: Detecting drift for revision " + rev + " with a timeout of 10m0s",
		"Reconciling=True Progressing: Running health checks for revision " + rev + " with a timeout of 10m0s", // P107
		"Healthy=Unknown Progressing: Running health checks for revision " + rev + " with a timeout of 10m0s",
		"Ready=True ReconciliationSucceeded: Applied revision: " + rev, // P132
	} {
		// The watch tells of every state, but may be behind the read that saw the last one.
		eventually(t, within, "a state said "+want, func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(seen, want) {
				return fmt.Errorf("only\n%s", strings.Join(seen, "\n"))
			}
			return nil
		})
	}
	var kinds []string
	for _, c := range ks.Status.Conditions {
		kinds = append(kinds, c.Type)
	}
	if !slices.Equal(kinds, []string{"Ready", "Healthy"}) { // P130, P132
		t.Errorf("the conditions are %v, want Ready and Healthy", kinds)
	}
	healthy := meta.FindStatusCondition(ks.Status.Conditions, "Healthy")
	if healthy.Status != metav1.ConditionTrue || healthy.Reason != "Succeeded" || !regexp.MustCompile(`^Health check passed in [0-9.µm]+s$`).MatchString(healthy.Message) { // P108
		t.Errorf("Healthy is %+v", healthy)
	}
	if ks.Status.LastAttemptedRevision != rev || ks.Status.LastAppliedRevision != rev || ks.Status.ObservedGeneration != ks.Generation { // P132, P136
		t.Errorf("status is %+v", ks.Status)
	}
	if !slices.Equal(ks.Finalizers, []string{"finalizers.fluxcd.io"}) { // P149, P150
		t.Errorf("finalizers are %v", ks.Finalizers)
	}
	if h := ks.Status.History; len(h) != 1 || h[0].LastReconciledStatus != "ReconciliationSucceeded" || h[0].Metadata["revision"] != rev || !strings.HasPrefix(h[0].Digest, "sha256:") { // P139
		t.Errorf("history is %+v", h)
	}
	cm := s.configMapOf("1")
	ids := []string{inventoryID(cm), s.id("apps/Deployment", "web")}
	var entries []string
	for _, e := range ks.Status.Inventory.Entries {
		entries = append(entries, e.ID)
		if e.Version != "v1" {
			t.Errorf("inventory version of %s is %s", e.ID, e.Version)
		}
	}
	if !slices.Equal(entries, ids) { // P96, in apply order
		t.Errorf("the inventory is %v, want %v", entries, ids)
	}
	if cm.Labels["kustomize.toolkit.fluxcd.io/name"] != "web" || cm.Labels["kustomize.toolkit.fluxcd.io/namespace"] != s.namespace { // P74
		t.Errorf("labels are %v", cm.Labels)
	}
	if i := slices.IndexFunc(cm.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "kustomize-controller" && m.Operation == metav1.ManagedFieldsOperationApply
	}); i < 0 { // P73
		t.Errorf("managed fields are %v", cm.ManagedFields)
	}
	applied := s.awaitEvent("web", "Normal", "Progressing", "ConfigMap/"+s.namespace+"/"+cm.Name+" created", "Deployment/"+s.namespace+"/web created") // P170
	s.checkEvent(applied, rev)                                                                                                                         // P167, P168, P169
	s.awaitEvent("web", "Normal", "Progressing", "Health check passed in ")                                                                            // P171
	finished := s.awaitEvent("web", "Normal", "ReconciliationSucceeded", "Reconciliation finished in ", ", next run in 10m0s")
	s.checkEvent(finished, rev)
	if finished.Annotations["kustomize.toolkit.fluxcd.io/commit_status"] != "update" { // P172
		t.Errorf("annotations of the last event are %v", finished.Annotations)
	}

	// P111, P143: without wait the verdict goes, at once after the change.
	s.change("web", unwaited)
	s.await("web", "Ready without Healthy", func(ks *v1.Kustomization) error {
		if meta.FindStatusCondition(ks.Status.Conditions, "Healthy") != nil || ks.Status.ObservedGeneration != ks.Generation {
			return fmt.Errorf("generation %d of %d, %v", ks.Status.ObservedGeneration, ks.Generation, messages(ks))
		}
		return conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue)
	})

	// P104, P170: what was pruned is listed.
	s.push(map[string]string{"web.yaml": deployment("web", goodImage, "")})
	s.awaitEvent("web", "Normal", "Progressing", "ConfigMap/"+s.namespace+"/"+cm.Name+" deleted")
}

// checkEvent checks what all events have in common.
func (s *scenario) checkEvent(e corev1.Event, revision string) {
	s.t.Helper()
	if e.Source.Component != "kustomize-controller" && e.ReportingController != "kustomize-controller" {
		s.t.Errorf("the event %q is from %q, %q", e.Message, e.Source.Component, e.ReportingController)
	}
	if e.Annotations["kustomize.toolkit.fluxcd.io/revision"] != revision {
		s.t.Errorf("the event %q is annotated %v", e.Message, e.Annotations)
	}
	if e.Annotations["event.toolkit.fluxcd.io/team"] != "shop" {
		s.t.Errorf("the event %q lacks the annotations of the object: %v", e.Message, e.Annotations)
	}
}

// One revision whose health check fails: P109, P110, P133, P136, P138, P139, P140, P173.
func TestParityOfFailure(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"web.yaml": deployment("web", goodImage, "")})
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.RetryInterval.Duration = time.Hour })
	s.awaitReady("web", r1)
	r2 := s.push(map[string]string{"web.yaml": broken("web", "")})
	bare := "failed early due to stalled resources: [Deployment/" + s.namespace + "/web status: 'Failed']"
	ks := s.awaitMessage("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed", "health check failed after ", bare)
	ready := meta.FindStatusCondition(ks.Status.Conditions, "Ready")
	if !regexp.MustCompile(`^health check failed after [0-9.]+s: ` + regexp.QuoteMeta(bare) + `$`).MatchString(ready.Message) {
		t.Errorf("Ready says %q", ready.Message)
	}
	if healthy := meta.FindStatusCondition(ks.Status.Conditions, "Healthy"); healthy == nil || healthy.Status != metav1.ConditionFalse ||
		healthy.Reason != "HealthCheckFailed" || healthy.Message != bare {
		t.Errorf("Healthy is %+v", healthy)
	}
	reconciling := meta.FindStatusCondition(ks.Status.Conditions, "Reconciling")
	if reconciling == nil || reconciling.Reason != "ProgressingWithRetry" || reconciling.Message != "Running health checks for revision "+r2+" with a timeout of 10m0s" {
		t.Errorf("Reconciling is %+v", reconciling)
	}
	if ks.Status.LastAppliedRevision != r1 || ks.Status.LastAttemptedRevision != r2 {
		t.Errorf("applied %s, attempted %s, want %s and %s", ks.Status.LastAppliedRevision, ks.Status.LastAttemptedRevision, r1, r2)
	}
	if h := ks.Status.History; len(h) != 2 || h[0].LastReconciledStatus != "HealthCheckFailed" || h[0].Metadata["revision"] != r2 {
		t.Errorf("history is %+v", h)
	}
	warning := s.awaitEvent("web", "Warning", "HealthCheckFailed", "health check failed after ", bare)
	if warning.Annotations["kustomize.toolkit.fluxcd.io/revision"] != r2 {
		t.Errorf("annotations of the warning are %v", warning.Annotations)
	}

	// P133: a spec that was never reconciled well is not observed.
	s.change("web", func(ks *v1.Kustomization) { ks.Spec.Timeout.Duration = 5 * time.Minute })
	ks = s.await("web", "failed with the new spec", func(ks *v1.Kustomization) error {
		c := meta.FindStatusCondition(ks.Status.Conditions, "Ready")
		if c.ObservedGeneration != ks.Generation {
			return fmt.Errorf("Ready is of generation %d", c.ObservedGeneration)
		}
		return messageIs(ks, "Ready", metav1.ConditionFalse, "HealthCheckFailed")
	})
	if ks.Status.ObservedGeneration == ks.Generation {
		t.Error("the generation of a spec that failed is observed")
	}

	// P140: a revision that can't be built leaves no history.
	n := len(ks.Status.History)
	s.push(map[string]string{"web.yaml": "kind: ["})
	ks = s.awaitMessage("web", "Ready", metav1.ConditionFalse, "BuildFailed")
	if len(ks.Status.History) != n {
		t.Errorf("history is %+v", ks.Status.History)
	}
}

// P160: a source in another namespace is refused where that is not allowed.
func TestParityOfAccess(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()

	runHoldfast(t, s.namespace, func(o *app.Options) { o.Kustomization.NoCrossNamespaceRefs = true })
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.SourceRef.Namespace = "elsewhere" })
	s.awaitMessage("app", "Stalled", metav1.ConditionTrue, "AccessDenied", "can't access 'GitRepository/elsewhere/app', cross-namespace references have been blocked")
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "AccessDenied", "can't access")
	s.awaitEvent("app", "Warning", "AccessDenied", "can't access")
}
