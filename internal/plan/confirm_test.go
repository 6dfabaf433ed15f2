package plan_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// What counts against maxPrune, and what becomes of what does not.
func TestMaxPrune(t *testing.T) {
	const x = "ConfigMap/a/x"
	tests := map[string]struct {
		x      plan.Stale
		max    string
		others []plan.Stale
		change func(*plan.Facts)
		want   string
	}{
		"no limit":         {x: free(x), max: "", want: "delete"},
		"within the limit": {x: free(x), max: "2", want: "delete"},
		"above the limit":  {x: free(x), max: "1", want: "AwaitingConfirmation"},
		"zero":             {x: free(x), max: "0", want: "AwaitingConfirmation"},
		"half of four": {x: free(x), max: "50%", want: "delete",
			change: func(f *plan.Facts) { f.Build.Desired = object.NewSet(id("ConfigMap/a/p"), id("ConfigMap/a/q")) }},
		"a third of four": {x: free(x), max: "33%", want: "delete",
			change: func(f *plan.Facts) { f.Build.Desired = object.NewSet(id("ConfigMap/a/p"), id("ConfigMap/a/q")) }},
		"a quarter of four": {x: free(x), max: "25%", want: "AwaitingConfirmation",
			change: func(f *plan.Facts) { f.Build.Desired = object.NewSet(id("ConfigMap/a/p"), id("ConfigMap/a/q")) }},
		"the other is renamed config":         {x: free(x), max: "1", others: []plan.Stale{free("Secret/a/y-g5b2m5gtd8")}, want: "delete"},
		"renamed config itself":               {x: free("ConfigMap/a/x-g5b2m5gtd8"), max: "0", want: "delete"},
		"a name like a hash, of another kind": {x: free("Service/a/x-g5b2m5gtd8"), max: "0", want: "AwaitingConfirmation"},
		"the other lingers": {x: free(x), max: "1", want: "delete",
			others: []plan.Stale{with(free("ConfigMap/a/y"), func(s *plan.Stale) { s.Lingering = true })}},
		"it lingers": {x: with(free(x), func(s *plan.Stale) { s.Lingering = true }), max: "0", want: "delete"},
		"the other is in use, and goes with its user": {x: free(x), max: "1", want: "AwaitingConfirmation",
			others: []plan.Stale{with(free("ConfigMap/a/y"), func(s *plan.Stale) { s.Use.Users = []string{"Pod/a/p"} })}},
		"the other may not be pruned": {x: free(x), max: "1", want: "delete",
			others: []plan.Stale{with(free("ConfigMap/a/y"), func(s *plan.Stale) { s.Seen.DisabledBy = "prune: disabled" })}},
		"the other can't be read": {x: free(x), max: "1", want: "AwaitingConfirmation",
			others: []plan.Stale{with(free("ConfigMap/a/y"), func(s *plan.Stale) { s.Seen = plan.Observation{Why: "forbidden"} })}},
		"the other is gone": {x: free(x), max: "1", want: "delete",
			others: []plan.Stale{with(free("ConfigMap/a/y"), func(s *plan.Stale) { s.Seen = plan.Observation{Presence: plan.Absent} })}},
		"the other is confirmed": {x: free(x), max: "1", want: "delete",
			others: []plan.Stale{with(free("ConfigMap/a/y"), func(s *plan.Stale) { s.Confirmed = s.Seen.UID })}},
		"it is confirmed":                     {x: with(free(x), func(s *plan.Stale) { s.Confirmed = s.Seen.UID }), max: "0", want: "delete"},
		"another of its name was confirmed":   {x: with(free(x), func(s *plan.Stale) { s.Confirmed = "uid-before" }), max: "0", want: "AwaitingConfirmation"},
		"the Kustomization goes":              {x: free(x), max: "0", change: func(f *plan.Facts) { f.Finalizing = true }, want: "delete"},
		"not healthy":                         {x: free(x), max: "0", change: func(f *plan.Facts) { f.Build.Healthy = false }, want: "AwaitingHealth"},
		"confirmed, but not healthy any more": {x: with(free(x), func(s *plan.Stale) { s.Confirmed = s.Seen.UID }), max: "0", change: func(f *plan.Facts) { f.Build.Healthy = false }, want: "AwaitingHealth"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.others == nil {
				tt.others = []plan.Stale{free("ConfigMap/a/y")}
			}
			f := facts(append(tt.others, tt.x)...)
			f.Policy.Max = limit(tt.max)
			if tt.change != nil {
				tt.change(&f)
			}
			wantOutcome(t, plan.Prune(f), spell(tt.x.ID), tt.want)
		})
	}
}

// An object that needs a word is shown with the UID that was seen, and remembers the word; not so when pruning is off again,
// nor when another object has its place.
func TestRetentionRemembersTheWord(t *testing.T) {
	tests := map[string]struct {
		stale         plan.Stale
		change        func(*plan.Facts)
		wantUID       string
		wantConfirmed bool
	}{
		"asked":  {stale: free("ConfigMap/a/x"), wantUID: "uid-ConfigMap/a/x"},
		"unread": {stale: plan.Stale{ID: id("ConfigMap/a/x"), WasPruneOff: true}},
		"confirmed, in use": {stale: with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Confirmed, s.Use.Users = s.Seen.UID, []string{"Pod/a/p"} }),
			wantUID: "uid-ConfigMap/a/x", wantConfirmed: true},
		"confirmed, unread": {stale: plan.Stale{ID: id("ConfigMap/a/x"), Confirmed: "u"}, wantUID: "u", wantConfirmed: true},
		"confirmed, made anew": {stale: with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Confirmed = "before" }),
			wantUID: "uid-ConfigMap/a/x"},
		"confirmed, pruning is off again": {stale: with(free("ConfigMap/a/x"), func(s *plan.Stale) { s.Confirmed = s.Seen.UID }),
			change: func(f *plan.Facts) { f.Policy.Prune = false }},
		"in use, nobody is asked": {stale: with(free("ConfigMap/a/x-g5b2m5gtd8"), func(s *plan.Stale) { s.Use.Users = []string{"Pod/a/p"} })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts(tt.stale)
			f.Policy.Max = limit("0")
			if tt.change != nil {
				tt.change(&f)
			}
			p := plan.Prune(f)
			if len(p.Retain) != 1 || p.Retain[0].UID != tt.wantUID || p.Retain[0].Confirmed != tt.wantConfirmed {
				t.Errorf("%+v", p.Retain)
			}
		})
	}
}

func shown(uid string, reason v1.RetentionReason) v1.RetainedObject {
	return v1.RetainedObject{ID: "a_" + uid + "__ConfigMap", Reason: reason, UID: uid}
}

// The digest stands for the set that is asked about, whatever the order and whatever else is kept.
func TestDigest(t *testing.T) {
	const asked = v1.RetainedAwaitingConfirmation
	set := []v1.RetainedObject{shown("u", asked), shown("v", asked)}
	digest := plan.Digest(set)
	if len(digest) != 16 {
		t.Fatalf("%q", digest)
	}
	done := shown("w", asked)
	done.Confirmed = true
	for name, same := range map[string][]v1.RetainedObject{
		"another order":     {set[1], set[0]},
		"others are kept":   {set[0], shown("w", v1.RetainedInUse), set[1]},
		"some are unread":   {set[0], set[1], shown("", asked)},
		"some were allowed": {done, set[0], set[1]},
	} {
		if got := plan.Digest(same); got != digest {
			t.Errorf("%s: %s, want %s", name, got, digest)
		}
	}
	renamed, anew := shown("u", asked), shown("u", asked)
	renamed.ID, anew.UID = "a_z__ConfigMap", "z"
	again := shown("u", asked)
	again.Since = &metav1.Time{Time: now}
	for name, other := range map[string][]v1.RetainedObject{
		"smaller": {set[0]}, "larger": {set[0], set[1], shown("w", asked)}, "another name": {renamed, set[1]}, "made anew": {anew, set[1]}, "left again": {again, set[1]}, "none": nil,
	} {
		if got := plan.Digest(other); got == digest || (got == "") != (other == nil) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Only the digest of what is shown allows it, and what was allowed before stays allowed.
func TestConfirmed(t *testing.T) {
	const asked = v1.RetainedAwaitingConfirmation
	done := shown("w", v1.RetainedInUse)
	done.Confirmed = true
	set := []v1.RetainedObject{shown("u", asked), shown("v", asked), shown("k", v1.RetainedInUse), done, shown("", asked), {ID: "broken", UID: "x", Confirmed: true}}
	uids := func(m map[object.ID]string) []string {
		var list []string
		for _, uid := range m {
			list = append(list, uid)
		}
		slices.Sort(list)
		return list
	}
	for annotation, want := range map[string][]string{"": {"w"}, "0123456789abcdef": {"w"}, plan.Digest(set[:1]): {"w"}, plan.Digest(set): {"u", "v", "w"}} {
		if got := uids(plan.Confirmed(set, annotation)); !slices.Equal(got, want) {
			t.Errorf("%q confirms %v, want %v", annotation, got, want)
		}
	}
	if got := plan.Confirmed([]v1.RetainedObject{shown("k", v1.RetainedInUse)}, ""); len(got) > 0 {
		t.Errorf("nothing was asked, and %v is confirmed", got)
	}
}

func TestLingering(t *testing.T) {
	got := plan.Lingering([]v1.RetainedObject{shown("u", v1.RetainedInUse), shown("h", v1.RetainedRevisionHistory),
		shown("a", v1.RetainedAwaitingHealth), shown("c", v1.RetainedAwaitingConfirmation), {ID: "broken", Reason: v1.RetainedInUse}})
	if len(got) != 2 || !got.Has(id("ConfigMap/a/u")) || !got.Has(id("ConfigMap/a/h")) {
		t.Errorf("%v", got)
	}
}
