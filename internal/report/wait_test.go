package report_test

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// waited is a fleet in which each verdict comes up: two have not tried the commit, and one of these failed with the one before.
func waited() []v1.Kustomization {
	tried := func(revision string) func(*v1.Kustomization) {
		return func(k *v1.Kustomization) { k.Status.LastAttemptedRevision = revision }
	}
	return []v1.Kustomization{
		ks("infra", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy), tried(revision2)),
		ks("unjudged", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseVerifying), tried(revision2)),
		ks("old", ready(metav1.ConditionFalse, "HealthCheckFailed", "health check failed"), phase(v1.PhaseHeld), tried(revision1)),
		ks("afterold", ready(metav1.ConditionFalse, "DependencyNotReady", "dependency 'team/old' is not ready"), phase(v1.PhaseWaiting), after("old"), tried(revision1)),
		ks("shop", ready(metav1.ConditionFalse, "RolledBack", "rolled back to "+revision1), stalled("RolledBack"), tried(revision2)),
		ks("checkout", ready(metav1.ConditionFalse, "DependencyNotReady", "dependency 'team/search' is not ready"), phase(v1.PhaseWaiting), after("search"), tried(revision1)),
		ks("search", ready(metav1.ConditionFalse, "DependencyNotReady", "dependency 'team/shop' is not ready"), phase(v1.PhaseWaiting), after("shop"), tried(revision1)),
		ks("refused", ready(metav1.ConditionFalse, "BuildFailed", "no such file"), phase(v1.PhaseRefused), tried(revision2)),
		ks("paused", func(k *v1.Kustomization) { k.Spec.Suspend = true }, tried(revision1)),
		ks("new"),
	}
}

func TestWaitText(t *testing.T) {
	all := waited()
	contains := func(revision string) bool { return revision == revision2 }
	look := report.WaitLookOf("2222222", all, all, contains)
	if look.Done() || look.Count(report.VerdictPending) != 4 {
		t.Errorf("%d are pending", look.Count(report.VerdictPending))
	}
	told := map[string]string{}
	var got bytes.Buffer
	for _, k := range look.Changed(told) {
		if err := k.WriteText(&got, report.TextOptions{Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "wait_progress.txt", got.Bytes())
	if again := look.Changed(told); len(again) != 0 {
		t.Errorf("told twice: %v", again)
	}
	prints(t, map[string]text{"wait_end": look}, report.TextOptions{})
	printsJSON(t, "wait", look)

	// Of those that wait, what one depends on may follow another source, whose revisions say nothing of the commit.
	others := report.WaitLookOf("2222222", all[6:7], all, func(string) bool { return false })
	if got := others.Kustomizations[0]; got.Verdict != report.VerdictNotTried || !strings.Contains(got.Why, "team/shop") {
		t.Errorf("%+v", got)
	}
}
