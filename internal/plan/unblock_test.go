package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

func podID(name string) object.ID { return object.ID{Kind: "Pod", Namespace: "shop", Name: name} }

// The StatefulSet ran revision r1, r2 failed, and r3 is wanted now.
func orderedSet(change func(*plan.OrderedSet, *plan.OrderedPod)) plan.OrderedSet {
	pod := plan.OrderedPod{ID: podID("db-1"), UID: "u1", ResourceVersion: "7", Revision: "r2", Failing: true, UnreadySince: unblockNow}
	set := plan.OrderedSet{ID: object.ID{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}, CreatedAt: unblockNow.Add(-time.Hour),
		Observed: true, CurrentRevision: "r1", UpdateRevision: "r3"}
	if change != nil {
		change(&set, &pod)
	}
	set.Pods = append(set.Pods, pod)
	return set
}

var unblockNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestUnblock(t *testing.T) {
	never := time.Time{}
	healthy := unblockNow.Add(-time.Minute)
	tests := map[string]struct {
		change      func(*plan.OrderedSet, *plan.OrderedPod)
		lastHealthy time.Time
		want        bool
	}{
		"given up, forward":                         {lastHealthy: healthy, want: true},
		"given up, back":                            {change: func(s *plan.OrderedSet, _ *plan.OrderedPod) { s.UpdateRevision = "r1" }, lastHealthy: healthy, want: true},
		"of the wanted template":                    {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.Revision = "r3" }, lastHealthy: healthy},
		"of the template before, which was healthy": {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.Revision = "r1" }, lastHealthy: healthy},
		"of the first template, never healthy":      {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.Revision = "r1" }, lastHealthy: never, want: true},
		"of the first template, of a set that is newer than what was healthy": {change: func(s *plan.OrderedSet, p *plan.OrderedPod) { p.Revision, s.CreatedAt = "r1", unblockNow },
			lastHealthy: healthy, want: true},
		"ready":                   {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.Ready = true }, lastHealthy: healthy},
		"on its way out":          {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.Leaving = true }, lastHealthy: healthy},
		"of no revision":          {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.Revision = "" }, lastHealthy: healthy},
		"without UID":             {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.UID = "" }, lastHealthy: healthy},
		"status of an older spec": {change: func(s *plan.OrderedSet, _ *plan.OrderedPod) { s.Observed = false }, lastHealthy: healthy},
		"may still become ready":  {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) { p.Failing = false }, lastHealthy: healthy},
		"did not become ready": {change: func(_ *plan.OrderedSet, p *plan.OrderedPod) {
			p.Failing, p.UnreadySince = false, unblockNow.Add(-30*time.Second)
		}, lastHealthy: healthy, want: true},
		"healthy since it was new": {change: func(s *plan.OrderedSet, p *plan.OrderedPod) { p.Revision, s.CreatedAt = "r1", healthy }, lastHealthy: healthy},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := plan.Unblock([]plan.OrderedSet{orderedSet(tt.change)}, tt.lastHealthy, unblockNow)
			if (len(got) > 0) != tt.want {
				t.Fatalf("%+v, want a deletion: %t", got, tt.want)
			}
			if tt.want && (got[0].ID != podID("db-1") || got[0].UID() != "u1" || got[0].ResourceVersion() != "7" || got[0].Set.Name != "db") {
				t.Errorf("%+v", got[0])
			}
		})
	}
}

// Pods go in the order in which the controller waits for them.
func TestUnblockInOrder(t *testing.T) {
	set := orderedSet(nil)
	for _, name := range []string{"db-10", "db-2", "odd", "other"} {
		pod := set.Pods[0]
		pod.ID = podID(name)
		set.Pods = append(set.Pods, pod)
	}
	var names []string
	for _, u := range plan.Unblock([]plan.OrderedSet{set}, unblockNow, unblockNow) {
		names = append(names, u.ID.Name)
	}
	if want := []string{"odd", "other", "db-1", "db-2", "db-10"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// Whatever the facts: no pod that serves, that is wanted or that is leaving goes.
func TestUnblockSparesWhatServes(t *testing.T) {
	revision := rapid.SampledFrom([]string{"", "r1", "r2", "r3"})
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return unblockNow.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "s")) * time.Second)
	})
	rapid.Check(t, func(t *rapid.T) {
		set := plan.OrderedSet{Observed: rapid.Bool().Draw(t, "observed"), CurrentRevision: revision.Draw(t, "current"),
			UpdateRevision: revision.Draw(t, "update"), CreatedAt: moment.Draw(t, "created")}
		pods := map[object.ID]plan.OrderedPod{}
		for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
			pod := plan.OrderedPod{ID: podID(fmt.Sprint("db-", i)), UID: fmt.Sprint("u", i), Revision: revision.Draw(t, "revision"),
				Ready: rapid.Bool().Draw(t, "ready"), Leaving: rapid.Bool().Draw(t, "leaving"), Failing: rapid.Bool().Draw(t, "failing"),
				UnreadySince: moment.Draw(t, "since")}
			pods[pod.ID] = pod
			set.Pods = append(set.Pods, pod)
		}
		for _, u := range plan.Unblock([]plan.OrderedSet{set}, moment.Draw(t, "healthy"), unblockNow) {
			if pod := pods[u.ID]; pod.Ready || pod.Leaving || pod.Revision == set.UpdateRevision || u.UID() != pod.UID || !set.Observed {
				t.Fatalf("%+v of %+v", pod, set)
			}
		}
	})
}
