package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// began is a rollout that began some minutes after now.
func began(r v1.RolloutStatus, digest string, minutes int) v1.RolloutStatus {
	at := metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute))
	r.Wanted, r.Began = &v1.RevisionDigest{Revision: "rev-" + digest, Digest: digest}, &at
	r.Phase, r.Verified, r.Culprits, r.Skipped = v1.PhaseVerifying, false, nil, nil
	return r
}

func line(r v1.RolloutRecord) string {
	return fmt.Sprintf("%d %s %s %s %q", r.Number, r.Revision, r.Trigger, r.Result, r.Note)
}

// Each rollout is one record, whose result stays as it was known first.
func TestChronicle(t *testing.T) {
	end := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	want := func(r v1.RolloutStatus, lines ...string) {
		t.Helper()
		var got []string
		for _, record := range r.History {
			got = append(got, line(record))
		}
		if strings.Join(got, "\n") != strings.Join(lines, "\n") {
			t.Errorf("history:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
	}
	r := plan.Chronicle(v1.RolloutStatus{}, plan.Course{}, now)
	want(r) // nothing began yet

	r = plan.Chronicle(began(r, "a", 0), plan.Course{}, end(0))
	want(r, `1 rev-a source Running ""`)
	r.Verified = true
	r = plan.Chronicle(r, plan.Course{}, end(2))
	first := `1 rev-a source Healthy ""`
	want(r, first)
	if took := plan.Took(r.History[0], end(60)); took != 2*time.Minute {
		t.Errorf("it took %s", took)
	}

	r = plan.Chronicle(began(r, "b", 5), plan.Course{}, end(5))
	if took := plan.Took(r.History[0], end(6)); took != time.Minute {
		t.Errorf("it takes %s so far", took)
	}
	before := r
	r = plan.Chronicle(began(r, "c", 7), plan.Course{Again: true}, end(7))
	want(r, `3 rev-c retry Running ""`, `2 rev-b source Superseded ""`, first)
	want(before, `2 rev-b source Running ""`, first) // the one before is as it was

	r.Phase = v1.PhaseHeld
	r = plan.Chronicle(r, plan.Course{}, end(9))
	want(r, `3 rev-c retry Failed ""`, `2 rev-b source Superseded ""`, first)
	r.Culprits = []v1.Culprit{{ID: "Deployment/shop/web", Message: "crashes"}}
	r = plan.Chronicle(r, plan.Course{}, end(11))
	if r.History[0].Note != "Deployment/shop/web: crashes" || !r.History[0].Ended.Time.Equal(end(9)) {
		t.Errorf("%+v", r.History[0])
	}
	r.Skipped = &v1.SkippedRevision{Reason: v1.SkippedFailed, RevisionDigest: v1.RevisionDigest{Digest: "c"}, Message: "it failed"}
	r = plan.Chronicle(r, plan.Course{}, end(12))
	if line(r.History[0]) != `3 rev-c retry RolledBack "it failed"` {
		t.Errorf("%+v", r.History[0])
	}
}

// What brought a revision back is said, with the words of the person who pinned it.
func TestChronicleOfAReturn(t *testing.T) {
	for want, pin := range map[string]*v1.Pin{
		`1 rev-a rollback Running ""`:      nil,
		`1 rev-a pin Running "slow"`:       {Reason: "slow"},
		`1 rev-a pin Running "ann"`:        {By: "ann"},
		`1 rev-a pin Running "slow (ann)"`: {Reason: "slow", By: "ann"},
	} {
		r := began(v1.RolloutStatus{Pin: pin}, "a", 0)
		if got := line(plan.Chronicle(r, plan.Course{Back: true}, now).History[0]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The history and its notes are bounded.
func TestChronicleIsBounded(t *testing.T) {
	var r v1.RolloutStatus
	for i := range 30 {
		r = plan.Chronicle(began(r, fmt.Sprint(i), i), plan.Course{}, now)
	}
	if len(r.History) != 10 || r.History[0].Number != 30 || r.History[9].Number != 21 {
		t.Errorf("%d records, from %d to %d", len(r.History), r.History[0].Number, r.History[len(r.History)-1].Number)
	}
	r.Phase, r.Culprits = v1.PhaseHeld, []v1.Culprit{{ID: "a", Message: strings.Repeat("é", 1000)}}
	if note := plan.Chronicle(r, plan.Course{}, now).History[0].Note; len(note) > 515 || !strings.HasSuffix(note, "é...") {
		t.Errorf("a note of %d bytes: %s", len(note), note)
	}
}

func TestIsSystemNamespace(t *testing.T) {
	owner := facts().Owner
	for name, want := range map[string]bool{"default": true, "kube-system": true, "flux-system": true, "holdfast-system": true, "shop": false} {
		if got := plan.IsSystemNamespace(owner, object.ID{Kind: "Namespace", Name: name}); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
