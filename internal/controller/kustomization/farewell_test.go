package kustomization

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

func keptFor(name string, reason v1.RetentionReason, message string, users ...string) plan.Retention {
	return plan.Retention{ID: object.ID{Kind: "ConfigMap", Namespace: "a", Name: name},
		Hold: plan.Hold{Reason: reason, Message: message, Users: users}}
}

// The message of a deletion names what it waits for, and what that waits for in turn.
func TestFarewellText(t *testing.T) {
	stuck := keptFor("cr", v1.RetainedTerminating, "waits for finalizers f since 2026-03-01T12:00:00Z")
	var many []plan.Retention
	for i := range 12 {
		many = append(many, keptFor(fmt.Sprint("x", i), v1.RetainedDeleteFailed, strings.Repeat("y", 1000)))
	}
	for what, c := range map[string]struct {
		retained, blocking []plan.Retention
		want               string
	}{
		"nothing": {want: "Deletion in progress"},
		"dependents": {retained: []plan.Retention{keptFor("a", v1.RetainedDependentsExist, "K depends on it"), keptFor("b", v1.RetainedDependentsExist, "K depends on it")},
			want: "Deletion in progress, 2 objects are not deleted yet: K depends on it"},
		"users": {retained: []plan.Retention{keptFor("a", v1.RetainedInUse, "", "Pod/a/q", "Pod/a/p")},
			blocking: []plan.Retention{keptFor("a", v1.RetainedInUse, "", "Pod/a/q", "Pod/a/p")},
			want:     "Deletion in progress, waits for ConfigMap/a/a (InUse: used by Pod/a/p and 1 more)"},
		"a finalizer that another object waits for": {
			retained: []plan.Retention{stuck, keptFor("b", v1.RetainedTerminating, "ConfigMap/a/cr is deleted first"), keptFor("c", v1.RetainedPruneDisabled, "no")},
			blocking: []plan.Retention{keptFor("b", v1.RetainedTerminating, "ConfigMap/a/cr is deleted first")},
			want: "Deletion in progress, waits for ConfigMap/a/cr (Terminating: waits for finalizers f since 2026-03-01T12:00:00Z), " +
				"ConfigMap/a/b (Terminating: ConfigMap/a/cr is deleted first)"},
		"no cause": {retained: []plan.Retention{keptFor("a", v1.RetainedProtected, "")}, blocking: []plan.Retention{keptFor("a", v1.RetainedProtected, "")},
			want: "Deletion in progress, waits for ConfigMap/a/a (Protected)"},
	} {
		t.Run(what, func(t *testing.T) {
			if got := farewellText(c.retained, c.blocking); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
	if got := farewellText(many, many); !strings.HasSuffix(got, " and 2 more") || len(got) > maxMessage {
		t.Errorf("%d bytes: ...%s", len(got), got[len(got)-40:])
	}
}

// The objects have their own time to go: it begins when nothing that depends on the Kustomization holds them any more.
func TestTimeBeginsAfterDependents(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ks := &v1.Kustomization{}
	ks.DeletionTimestamp = deletedAt(start)
	mem := &memory{}
	held := plan.Plan{Retain: []plan.Retention{keptFor("a", v1.RetainedDependentsExist, "K depends on it")}}
	for minute, c := range []struct {
		plan plan.Plan
		want int
	}{{held, 0}, {held, 1}, {plan.Plan{}, 1}, {plan.Plan{}, 1}} {
		p := &pass{ks: ks, mem: mem, now: start.Add(time.Duration(minute) * time.Minute), plan: c.plan}
		if got := p.deletingSince(); !got.Equal(start.Add(time.Duration(c.want) * time.Minute)) {
			t.Errorf("in minute %d: since %s", minute, got)
		}
	}
}
