package health_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

func checked(name string, status health.Status) health.Checked {
	return health.Checked{
		ID:      object.ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name},
		Verdict: health.Verdict{Status: status},
	}
}

// P116: one failed object is the verdict, unless the others are to be waited for.
func TestFold(t *testing.T) {
	good, busy, bad := checked("good", health.Current), checked("busy", health.InProgress), checked("bad", health.Failed)
	gone, zero := checked("gone", health.NotFound), checked("zero", "")
	tests := map[string]struct {
		in       []health.Checked
		failFast bool
		want     health.Status
	}{
		"none":                  {want: health.Current},
		"all current":           {in: []health.Checked{good, good}, want: health.Current},
		"one busy":              {in: []health.Checked{good, busy}, want: health.InProgress},
		"one missing":           {in: []health.Checked{good, gone}, failFast: true, want: health.InProgress},
		"zero verdict":          {in: []health.Checked{zero}, failFast: true, want: health.InProgress},
		"failed, fast":          {in: []health.Checked{busy, bad}, failFast: true, want: health.Failed},
		"failed, others busy":   {in: []health.Checked{busy, bad}, want: health.InProgress},
		"failed, nothing moves": {in: []health.Checked{good, bad}, want: health.Failed},
	}
	for name, tt := range tests {
		if got := health.Fold(tt.in, tt.failFast); got.Status != tt.want {
			t.Errorf("%s: %s, want %s", name, got.Status, tt.want)
		}
	}
}

func TestTexts(t *testing.T) {
	unread := checked("a", health.Unknown)
	unread.Verdict.Error = "failed to evaluate"
	got := health.Fold([]health.Checked{checked("c", health.Failed), checked("b", health.InProgress), unread,
		checked("ok", health.Current)}, true)
	want := "timeout waiting for: [Deployment/shop/a status: 'Unknown': failed to evaluate, " +
		"Deployment/shop/b status: 'InProgress', Deployment/shop/c status: 'Failed']"
	if got.TimeoutText() != want {
		t.Errorf("got  %s\nwant %s", got.TimeoutText(), want)
	}
	want = "failed early due to stalled resources: [Deployment/shop/c status: 'Failed']"
	if got.StalledText() != want {
		t.Errorf("got  %s\nwant %s", got.StalledText(), want)
	}
}

// TestManyCulprits is C32: at most ten names and a count.
func TestManyCulprits(t *testing.T) {
	var many []health.Checked
	for i := range 60 {
		many = append(many, checked(fmt.Sprintf("d%02d", i), health.InProgress))
	}
	got := health.Fold(many, true).TimeoutText()
	const end = "Deployment/shop/d09 status: 'InProgress', and 50 more]"
	if len(got) < len(end) || got[len(got)-len(end):] != end {
		t.Errorf("got %s", got)
	}
}

func TestFoldIgnoresOrder(t *testing.T) {
	states := []health.Status{health.Current, health.InProgress, health.Failed, health.Terminating, health.NotFound, health.Unknown}
	rapid.Check(t, func(t *rapid.T) {
		var in []health.Checked
		for i := range rapid.IntRange(0, 15).Draw(t, "n") {
			in = append(in, checked(fmt.Sprint("d", i), rapid.SampledFrom(states).Draw(t, "status")))
		}
		fast := rapid.Bool().Draw(t, "failFast")
		shuffled := rapid.Permutation(in).Draw(t, "order")
		if a, b := health.Fold(in, fast), health.Fold(shuffled, fast); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}
