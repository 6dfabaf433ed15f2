package plan_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func revision(name string) v1.RevisionDigest {
	return v1.RevisionDigest{Revision: name, Digest: "d-" + name}
}

func wanting(name string) plan.Want {
	return plan.Want{Revision: name, Digest: "d-" + name, Generation: 1}
}

func stored(list ...v1.RevisionDigest) []v1.StoredRevision {
	var out []v1.StoredRevision
	for _, d := range list {
		out = append(out, v1.StoredRevision{RevisionDigest: d, Checksum: "sum of " + d.Revision})
	}
	return out
}

// failed is the rollout of v2, which failed after v1 was healthy and stored.
func failed() v1.RolloutStatus {
	v1r, v2 := revision("v1"), revision("v2")
	return v1.RolloutStatus{Phase: v1.PhaseHeld, Wanted: &v2, WantedGeneration: 1, LastHealthy: &v1r, Running: &v2,
		Began: &metav1.Time{Time: now}, Stored: stored(v1r, revision("v0"))}
}

func rolledBack() v1.RolloutStatus { return plan.GoBack(failed(), "it crashes", now) }

func request(to, until string) plan.Said {
	return plan.Said{Rollback: to + until, Request: &v1.RollbackRequest{To: "d-" + to, Until: until, By: "alice"}}
}

func pinned(until string) v1.RolloutStatus {
	r, _ := plan.Steer(failed(), wanting("v2"), request("v0", until), now)
	return r
}

// pinnedUnbuilt was pinned while the source could not be built.
func pinnedUnbuilt() v1.RolloutStatus {
	r, _ := plan.Steer(failed(), plan.Want{Revision: "v3", Generation: 1}, request("v0", "next"), now)
	return r
}

func TestSteer(t *testing.T) {
	same := wanting("v2")
	same.Revision = "v2-renders-the-same"
	spec := wanting("v2")
	spec.Generation = 2
	asked := wanting("v2")
	asked.Requested = true
	unbuilt := plan.Want{Revision: "v3", Generation: 1}
	tests := map[string]struct {
		from         v1.RolloutStatus
		want         plan.Want
		said         plan.Said
		after        time.Duration
		back         string
		skipped, pin string
		again        bool
		released     string
		refused      bool
	}{
		"nothing before":                            {want: wanting("v1")},
		"held is not rolled back by itself":         {from: failed(), want: wanting("v2")},
		"rolled back":                               {from: rolledBack(), want: wanting("v2"), back: "v1", skipped: "v2"},
		"a commit that renders the same":            {from: rolledBack(), want: same, back: "v1", skipped: "v2-renders-the-same"},
		"a request alone":                           {from: rolledBack(), want: asked, back: "v1", skipped: "v2"},
		"another build":                             {from: rolledBack(), want: wanting("v3")},
		"another spec":                              {from: rolledBack(), want: spec},
		"what can't be built ends no skip":          {from: rolledBack(), want: unbuilt, skipped: "v2"},
		"retry":                                     {from: rolledBack(), want: wanting("v2"), said: plan.Said{Retry: "1"}, again: true},
		"retry of what is only held":                {from: failed(), want: wanting("v2"), said: plan.Said{Retry: "1"}, again: true},
		"release of a skip":                         {from: rolledBack(), want: wanting("v2"), said: plan.Said{Release: "1"}, released: "the skip"},
		"release of nothing":                        {from: failed(), want: wanting("v2"), said: plan.Said{Release: "1"}},
		"by hand":                                   {from: failed(), want: wanting("v2"), said: request("v0", "next"), back: "v0", skipped: "v2", pin: "v0"},
		"by hand, after an automatic one":           {from: rolledBack(), want: wanting("v2"), said: request("v0", "next"), back: "v0", skipped: "v2", pin: "v0"},
		"by hand, where nothing can be built":       {from: failed(), want: unbuilt, said: request("v0", "released"), back: "v0", skipped: "v3", pin: "v0"},
		"by hand to what is not stored":             {from: failed(), want: wanting("v2"), said: request("v9", "next"), refused: true},
		"by hand until never":                       {from: failed(), want: wanting("v2"), said: request("v0", "never"), refused: true},
		"by hand, in words that are not understood": {from: failed(), want: wanting("v2"), said: plan.Said{Rollback: "x"}, refused: true},
		"pinned":                            {from: pinned("next"), want: wanting("v2"), said: request("v0", "next"), back: "v0", skipped: "v2", pin: "v0"},
		"pinned, the command is gone":       {from: pinned("next"), want: wanting("v2"), back: "v0", skipped: "v2", pin: "v0"},
		"pinned until next, the same again": {from: pinned("next"), want: same, back: "v0", skipped: "v2-renders-the-same", pin: "v0"},
		"pinned until next, which comes":    {from: pinned("next"), want: wanting("v3"), said: request("v0", "next"), released: "the pin"},
		"pinned where nothing could be built, and then something is": {from: pinnedUnbuilt(), want: wanting("v3"), released: "the pin"},
		"pinned until next, which can't be built":                    {from: pinned("next"), want: unbuilt, back: "v0", skipped: "v2", pin: "v0"},
		"pinned until released, another comes":                       {from: pinned("released"), want: wanting("v3"), back: "v0", skipped: "v3", pin: "v0"},
		"pinned until released":                                      {from: pinned("released"), want: wanting("v2"), said: plan.Said{Release: "1"}, released: "the pin"},
		"pinned until a time":                                        {from: pinned("2026-03-01T13:00:00Z"), want: wanting("v2"), after: time.Hour - 1, back: "v0", skipped: "v2", pin: "v0"},
		"pinned until a time that has come":                          {from: pinned("2026-03-01T13:00:00Z"), want: wanting("v2"), after: time.Hour, released: "the pin"},
		"retry does not end a pin":                                   {from: pinned("next"), want: wanting("v2"), said: plan.Said{Retry: "1"}, back: "v0", skipped: "v2", pin: "v0", again: true},
		"released and pinned anew":                                   {from: pinned("next"), want: wanting("v2"), said: plan.Said{Release: "1", Rollback: "v1", Request: &v1.RollbackRequest{To: "d-v1", Until: "next"}}, back: "v1", skipped: "v2", pin: "v1", released: "the pin"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := *tt.from.DeepCopy()
			r, c := plan.Steer(tt.from, tt.want, tt.said, now.Add(tt.after))
			if !reflect.DeepEqual(before, tt.from) {
				t.Error("the facts were changed")
			}
			if c.Back != (tt.back != "") || c.To.Revision != tt.back || c.Again != tt.again || c.Released != tt.released || (c.Refused != "") != tt.refused {
				t.Errorf("the course is %+v", c)
			}
			if got := skippedRevision(r); got != tt.skipped {
				t.Errorf("skipped is %q, want %q", got, tt.skipped)
			}
			if got := pinnedRevision(r); got != tt.pin {
				t.Errorf("pinned is %q, want %q", got, tt.pin)
			}
			// Repeated, nothing changes: each command counts once.
			again, c2 := plan.Steer(r, tt.want, tt.said, now.Add(tt.after))
			if !reflect.DeepEqual(again, r) || c2.Back != c.Back || c2.To.Digest != c.To.Digest || c2.Again || c2.Refused != "" || c2.Released != "" {
				t.Errorf("the second time: %+v\n%+v\n%+v", c2, r, again)
			}
		})
	}
}

func skippedRevision(r v1.RolloutStatus) string {
	if r.Skipped == nil {
		return ""
	}
	return r.Skipped.Revision
}

func pinnedRevision(r v1.RolloutStatus) string {
	if r.Pin == nil {
		return ""
	}
	return r.Pin.Revision
}

func TestMayGoBack(t *testing.T) {
	rollback := plan.Recovery{Rollback: true}
	if !plan.MayGoBack(failed(), rollback) {
		t.Fatal("it may not go back")
	}
	for name, change := range map[string]func(*v1.RolloutStatus){
		"not failed":          func(r *v1.RolloutStatus) { r.Phase = v1.PhaseVerifying },
		"rolled back already": func(r *v1.RolloutStatus) { *r = rolledBack() },
		"pinned":              func(r *v1.RolloutStatus) { *r = pinned("next"); r.Skipped = nil },
		"never healthy":       func(r *v1.RolloutStatus) { r.LastHealthy = nil },
		"it was healthy once": func(r *v1.RolloutStatus) { r.LastHealthy = r.Wanted; r.Stored = append(r.Stored, stored(*r.Wanted)...) },
		"not stored":          func(r *v1.RolloutStatus) { r.Stored = r.Stored[1:] },
		"nothing is wanted":   func(r *v1.RolloutStatus) { r.Wanted = nil },
	} {
		r := failed()
		change(&r)
		if plan.MayGoBack(r, rollback) {
			t.Errorf("%s: it may go back", name)
		}
	}
	if plan.MayGoBack(failed(), plan.Recovery{Any: true}) {
		t.Error("without onFailure: Rollback it may go back")
	}
}

// A rollback never loops: whatever commits, requests and verdicts follow, a build that failed under a spec is not taken up again
// without a word from a person, and what runs while it is wanted is the last healthy revision.
func TestARollbackNeverLoops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rolledBack()
		for i := range rapid.IntRange(1, 12).Draw(t, "passes") {
			want := wanting("v2")
			want.Revision = rapid.SampledFrom([]string{"v2", "v2b"}).Draw(t, "revision")
			want.Requested = rapid.Bool().Draw(t, "requested")
			var c plan.Course
			at := now.Add(time.Duration(i) * time.Hour)
			r, c = plan.Steer(r, want, plan.Said{}, at)
			if !c.Back || c.To.Digest != "d-v1" {
				t.Fatalf("pass %d: %+v", i, c)
			}
			r = plan.Begin(r, plan.Want{Revision: c.To.Revision, Digest: c.To.Digest, Generation: 1, Requested: want.Requested}, at)
			r = plan.Applied(r, at, timeout)
			r = plan.Judge(r, rapid.SampledFrom([]plan.Verdict{plan.InProgress, plan.Healthy, plan.Failed}).Draw(t, "verdict"), at, plan.Terms{Timeout: timeout})
			if plan.MayGoBack(r, plan.Recovery{Rollback: true, Any: true}) {
				t.Fatal("it would be rolled back once more")
			}
		}
	})
}

func TestStored(t *testing.T) {
	names := func(list []v1.StoredRevision) []string {
		var out []string
		for _, d := range list {
			out = append(out, d.Revision)
		}
		return out
	}
	v3 := revision("v3")
	all := v1.RolloutStatus{LastHealthy: &v3, Stored: stored(revision("v4"), v3, revision("v2"), revision("v1"))}
	pin := all
	pin.Pin = &v1.Pin{RevisionDigest: revision("v1")}
	v2 := revision("v2")
	was := v1.RolloutStatus{LastHealthy: &v2}
	for name, tt := range map[string]struct {
		r, status v1.RolloutStatus
		keep      int
		want      []string
	}{
		"all":                                {all, all, 9, []string{"v4", "v3", "v2", "v1"}},
		"the newest":                         {all, all, 3, []string{"v4", "v3", "v2"}},
		"the last healthy one in any case":   {all, all, 1, []string{"v3"}},
		"the pinned one too":                 {pin, pin, 1, []string{"v3", "v1"}},
		"none":                               {all, all, 0, nil},
		"room is for what need not be there": {pin, pin, 3, []string{"v4", "v3", "v1"}},
		"what status still counts on":        {all, was, 1, []string{"v3", "v2"}},
		"what is still pinned in status":     {all, pin, 1, []string{"v3", "v1"}},
	} {
		if got := names(plan.Stored(tt.r, tt.status, tt.keep)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	v1r := revision("v1")
	all.LastHealthy = &v1r
	next := plan.StoreNext(all, "sum")
	if got := names(next); !slices.Equal(got, []string{"v1", "v4", "v3", "v2"}) {
		t.Errorf("stored next: %v", got)
	}
	all.Stored = next
	if got := plan.StoredAs(all, v1r.Digest); got.Checksum != "sum" || got.Revision != "v1" {
		t.Errorf("v1 is stored as %+v", got)
	}
	if got := plan.StoredAs(all, "d-v9"); got.Checksum != "" || got.Digest != "d-v9" {
		t.Errorf("what is not stored is stored as %+v", got)
	}
}

func TestSetAside(t *testing.T) {
	running, wanted := object.NewSet(id("ConfigMap/shop/a")), object.Set{}
	for i := range 150 {
		wanted[id("ConfigMap/shop/x"+string(rune('A'+i%26))+string(rune('a'+i/26)))] = struct{}{}
	}
	wanted[id("ConfigMap/shop/a")] = struct{}{}
	r := plan.SetAside(rolledBack(), wanted, running)
	if !r.Skipped.Compared || r.Skipped.NewCount != 150 || len(r.Skipped.New) != 100 || !slices.IsSorted(r.Skipped.New) || slices.Contains(r.Skipped.New, id("ConfigMap/shop/a").Inventory()) {
		t.Errorf("%d of %d", len(r.Skipped.New), r.Skipped.NewCount)
	}
	if r := plan.SetAside(failed(), wanted, running); r.Skipped != nil {
		t.Error("something is skipped that was not")
	}
}

// Going back deletes what the failed revision made, and not what it took over.
func TestTakenOver(t *testing.T) {
	young, old, other := free("ConfigMap/shop/young"), free("ConfigMap/shop/old"), free("ConfigMap/shop/other")
	young.Seen.CreatedAt, old.Seen.CreatedAt, other.Seen.CreatedAt = now, now.Add(-time.Second), now.Add(-time.Hour)
	f := facts(young, old, other)
	f.Build.Brings = "v1"
	f.Aside = &plan.Aside{Revision: "v2", Since: now, Wants: object.NewSet(young.ID, old.ID)}
	p := plan.Prune(f)
	if len(p.Delete) != 2 || len(p.Retain) != 1 || p.Retain[0].ID != old.ID || p.Retain[0].Reason != v1.RetainedMovedElsewhere {
		t.Errorf("%s", printPlan(p))
	}
	f.Aside.Since = time.Time{} // it was never applied, so that it made nothing
	if p := plan.Prune(f); len(p.Delete) != 1 || p.Delete[0].ID != other.ID {
		t.Errorf("%s", printPlan(p))
	}
	f.Build.Healthy = false
	if p := plan.Prune(f); len(p.Retain) != 3 || p.Retain[0].Until != "v1 is healthy" {
		t.Errorf("%s", printPlan(p))
	}
}

// A Job of a revision that was given up has run, though it is not in the build that was brought back, or is there under the same name
// with another manifest. What was remembered of a Job of the build is known from the look at it. All of it is bounded.
func TestRemembering(t *testing.T) {
	entry := func(name, digest string) v1.CompletedJob {
		return v1.CompletedJob{ID: id("Job.batch/shop/" + name).Inventory(), Digest: digest}
	}
	was := []v1.CompletedJob{entry("migrate", "1"), entry("migrate", "2"), entry("new", "1")}
	jobs := []plan.Run{{ID: id("Job.batch/shop/migrate"), Digest: "1"}}
	if diff := cmp.Diff([]v1.CompletedJob{entry("migrate", "2"), entry("new", "1")}, plan.Remembering(nil, was, jobs)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(was, plan.Remembering(was[:1], was, jobs)); diff != "" {
		t.Error(diff)
	}
	var many []v1.CompletedJob
	for i := range 150 {
		many = append(many, entry("migrate", fmt.Sprint(i)))
	}
	if got := plan.Remembering(was[:1], many, jobs); len(got) != 100 || got[0] != was[0] {
		t.Errorf("%d are remembered, first %v", len(got), got[0])
	}
}
