package report_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

func objectOf(kind, name string, rest map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": "shop"}}}
	for k, v := range rest {
		u.Object[k] = v
	}
	return u
}

func data(pairs ...string) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return map[string]any{"data": m}
}

func containers(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "side", "image": "side:1"}, map[string]any{"name": "web", "image": image}}}}
}

// Renamed config is one change, a list item is found by its name, and no value of a Secret is shown.
func TestDiffOf(t *testing.T) {
	from := []*unstructured.Unstructured{
		objectOf("ConfigMap", "web-config-g5b2m5gtd8", data("LOG_LEVEL", "debug", "same", "1")),
		objectOf("Secret", "web-env-g5b2m5gtd8", data("API_TOKEN", "hunter2-old", "other", "hunter2")),
		objectOf("Secret", "plain", data("API_TOKEN", "hunter2-old")),
		objectOf("Pod", "web", containers("web:1")), objectOf("Service", "old", nil), objectOf("Service", "same", nil),
	}
	to := []*unstructured.Unstructured{
		objectOf("ConfigMap", "web-config-7h4d9k2fmm", data("LOG_LEVEL", "info", "same", "1")),
		objectOf("Secret", "web-env-7h4d9k2fmm", data("API_TOKEN", "hunter2-new")),
		objectOf("Secret", "plain", data("API_TOKEN", "hunter2-new")),
		objectOf("Pod", "web", containers("web:2")), objectOf("Service", "new", nil), objectOf("Service", "same", nil),
	}
	d := report.RevisionDiff{Namespace: "flux-system", Name: "shop", From: v1.RevisionDigest{Revision: "v1"}, To: v1.RevisionDigest{Revision: "v2"},
		Changes: report.DiffOf(from, to)}
	want := `flux-system/shop: v1 -> v2
> ConfigMap shop/web-config-7h4d9k2fmm (was web-config-g5b2m5gtd8)
    data.LOG_LEVEL: "debug" -> "info"
~ Pod shop/web
    spec.containers[web].image: "web:1" -> "web:2"
~ Secret shop/plain
    data.API_TOKEN: (changed)
> Secret shop/web-env-7h4d9k2fmm (was web-env-g5b2m5gtd8)
    data.API_TOKEN: (changed)
    data.other: (not shown) (gone)
+ Service shop/new added
- Service shop/old removed
`
	var b strings.Builder
	if err := d.WriteText(&b, report.TextOptions{}); err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func withHistory() *v1.Kustomization {
	at := func(minutes int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 3, 1, 10, minutes, 0, 0, time.UTC))
	}
	end := at(9)
	one, two := v1.RevisionDigest{Revision: "main@sha1:1f0c9d2000000000000000000000000000000000", Digest: "sha256:aa01"},
		v1.RevisionDigest{Revision: "main@sha1:8be41a7000000000000000000000000000000000", Digest: "sha256:aa02"}
	ks := &v1.Kustomization{}
	ks.Namespace, ks.Name = "flux-system", "shop"
	ks.Status.Rollout = &v1.RolloutStatus{Wanted: &one, Running: &one, LastHealthy: &one, Stored: []v1.StoredRevision{{RevisionDigest: one, Checksum: "sum"}},
		Skipped: &v1.SkippedRevision{RevisionDigest: two, Reason: v1.SkippedFailed},
		History: []v1.RolloutRecord{
			{Number: 3, Revision: one.Revision, Digest: one.Digest, Trigger: v1.TriggerRollback, Result: v1.ResultHealthy, Started: at(9), Ended: &end},
			{Number: 2, Revision: two.Revision, Digest: two.Digest, Trigger: v1.TriggerSource, Result: v1.ResultRolledBack, Started: at(4), Ended: &end,
				Note: "Deployment/shop/web: pod web-1 CrashLoopBackOff"},
		}}
	return ks
}

func TestHistory(t *testing.T) {
	h := report.HistoryOf(withHistory(), time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC))
	want := `#  REVISION      RESULT      STARTED               TOOK  TRIGGER   NOTE
3  main@1f0c9d2  Healthy     2026-03-01 10:09:00Z  0s    rollback  runs now; stored
2  main@8be41a7  RolledBack  2026-03-01 10:04:00Z  5m    source    Deployment/shop/web: pod web-1 CrashLoopBackOff
main@8be41a7 is skipped until it renders something else, or: holdfast retry shop -n flux-system
`
	var b strings.Builder
	if err := h.WriteText(&b, report.TextOptions{}); err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestFindRevision(t *testing.T) {
	ks := withHistory()
	for name, want := range map[string]string{
		"3": "sha256:aa01", "2": "sha256:aa02", "8be41a7": "sha256:aa02", "main@8be41a7": "sha256:aa02", "sha256:aa01": "sha256:aa01",
		"aa02": "sha256:aa02", ks.Status.Rollout.Wanted.Revision: "sha256:aa01", "9": "", "aa": "", "": "", "ffff": "",
	} {
		d, err := report.FindRevision(ks, name)
		if d.Digest != want || (err == nil) != (want != "") {
			t.Errorf("%q: %s %v", name, d.Digest, err)
		}
	}
	if _, err := report.TargetOf(ks, "2"); err == nil || !strings.Contains(err.Error(), "not stored") {
		t.Errorf("a revision that is not stored: %v", err)
	}
	if _, err := report.TargetOf(ks, ""); err == nil || !strings.Contains(err.Error(), "the one that runs") {
		t.Errorf("nothing to go back to: %v", err)
	}
	if _, err := report.TargetOf(&v1.Kustomization{}, ""); err == nil || !strings.Contains(err.Error(), "keepRevisions") {
		t.Errorf("nothing stored: %v", err)
	}
}
