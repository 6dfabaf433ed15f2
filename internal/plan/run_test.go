package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// A Job that was seen complete is remembered with the end of its time to live, until it runs anew, leaves the build, changes, or
// turns out to have been deleted by hand.
func TestRuns(t *testing.T) {
	job := plan.Run{ID: id("Job.batch/shop/migrate"), Digest: "d1", Namespace: "shop-uid", TTL: time.Hour}
	remembered := []v1.CompletedJob{{ID: job.ID.Inventory(), Digest: "d1", NamespaceUID: "shop-uid", Expires: metav1.NewTime(now.Add(time.Hour))}}
	seen := func(change func(*plan.Run)) []plan.Run {
		r := job
		change(&r)
		return []plan.Run{r}
	}
	tests := map[string]struct {
		was  []v1.CompletedJob
		jobs []plan.Run
		at   time.Duration
		want []v1.CompletedJob
	}{
		"complete":               {nil, seen(func(r *plan.Run) { r.Seen, r.Completed = plan.Present, now }), 0, remembered},
		"complete and gone":      {nil, seen(func(r *plan.Run) { r.Seen, r.Completed = plan.Absent, now }), 0, remembered},
		"still there":            {remembered, seen(func(r *plan.Run) { r.Seen, r.Completed = plan.Present, now }), time.Minute, remembered},
		"runs":                   {nil, seen(func(r *plan.Run) { r.Seen = plan.Present }), 0, nil},
		"runs anew":              {remembered, seen(func(r *plan.Run) { r.Seen = plan.Present }), 0, nil},
		"removed in time":        {remembered, seen(func(r *plan.Run) { r.Seen = plan.Absent }), time.Hour, remembered},
		"removed a moment early": {remembered, seen(func(r *plan.Run) { r.Seen = plan.Absent }), time.Hour - 10*time.Second, remembered},
		"deleted by hand":        {remembered, seen(func(r *plan.Run) { r.Seen = plan.Absent }), time.Minute, nil},
		"gone, never seen":       {nil, seen(func(r *plan.Run) { r.Seen = plan.Absent }), time.Hour, nil},
		"on its way out":         {nil, seen(func(r *plan.Run) { r.Seen, r.Completed, r.Deleted = plan.Present, now, now.Add(time.Hour) }), time.Hour, remembered},
		"and deleted by hand":    {remembered, seen(func(r *plan.Run) { r.Seen, r.Completed, r.Deleted = plan.Present, now, now.Add(time.Minute) }), time.Hour, nil},
		"failed":                 {nil, seen(func(r *plan.Run) { r.Seen, r.Failed = plan.Absent, "BackoffLimitExceeded" }), time.Hour, nil},
		"can't be read":          {remembered, seen(func(*plan.Run) {}), time.Minute, remembered},
		"changed":                {remembered, seen(func(r *plan.Run) { r.Seen, r.Digest = plan.Absent, "d2" }), time.Hour, nil},
		"on another cluster":     {remembered, seen(func(r *plan.Run) { r.Seen, r.Namespace = plan.Absent, "another" }), time.Hour, nil},
		"nobody knows where":     {remembered, seen(func(r *plan.Run) { r.Seen, r.Completed, r.Namespace = plan.Present, now, "" }), time.Hour, nil},
		"left the build":         {remembered, nil, time.Hour, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, plan.Runs(tt.was, tt.jobs, now.Add(tt.at))); diff != "" {
				t.Error(diff)
			}
		})
	}
	for at, want := range map[time.Duration]bool{time.Minute: false, time.Hour - 10*time.Second: true, 2 * time.Hour: true} {
		if got := plan.HasRun(remembered, job, now.Add(at)); got != want {
			t.Errorf("after %s it has run: %t", at, got)
		}
	}
	for what, namespace := range map[string]types.UID{"on another cluster": "another", "nobody knows where": ""} {
		elsewhere := job
		elsewhere.Namespace = namespace
		unplaced := []v1.CompletedJob{{ID: remembered[0].ID, Digest: "d1", Expires: remembered[0].Expires}}
		if plan.HasRun(append(unplaced, remembered...), elsewhere, now.Add(2*time.Hour)) || !plan.IsNamed(remembered, elsewhere) {
			t.Errorf("%s: it has run", what)
		}
	}
	job.Digest = "d2"
	if plan.HasRun(remembered, job, now.Add(2*time.Hour)) {
		t.Error("another manifest has run")
	}
	if plan.IsNamed(remembered, job) {
		t.Error("another manifest is named")
	}
}

// What is remembered is bounded, and in an order of its own.
func TestRunsAreBounded(t *testing.T) {
	var jobs []plan.Run
	for i := range 150 {
		jobs = append(jobs, plan.Run{ID: object.ID{Group: "batch", Kind: "Job", Namespace: "shop", Name: fmt.Sprintf("j%03d", i)}, Digest: "d", Namespace: "shop-uid",
			Completed: now.Add(time.Duration(i/2) * time.Second)})
	}
	got := plan.Runs(nil, jobs, now)
	if len(got) != 100 || got[0].ID != jobs[148].ID.Inventory() || got[1].ID != jobs[149].ID.Inventory() || got[99].ID != jobs[51].ID.Inventory() {
		t.Errorf("%d are remembered, from %s to %s", len(got), got[0].ID, got[len(got)-1].ID)
	}
}

// How a Job ended is open when it was applied and is not seen, and neither it nor Kubernetes said.
func TestIsOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		run  plan.Run
		want bool
	}{
		"gone":       {plan.Run{UID: "u", Seen: plan.Absent}, true},
		"not read":   {plan.Run{UID: "u"}, true},
		"there":      {plan.Run{UID: "u", Seen: plan.Present}, false},
		"complete":   {plan.Run{UID: "u", Seen: plan.Absent, Completed: now}, false},
		"failed":     {plan.Run{UID: "u", Seen: plan.Absent, Failed: "BackoffLimitExceeded"}, false},
		"never ours": {plan.Run{Seen: plan.Absent}, false},
	} {
		if got := tt.run.IsOpen(); got != tt.want {
			t.Errorf("%s: open %t", name, got)
		}
	}
}
