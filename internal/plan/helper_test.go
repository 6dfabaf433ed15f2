package plan_test

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	timeout = 5 * time.Minute
	retry   = time.Minute
)

// id reads an identity from "Kind.group/namespace/name", "Kind/namespace/name" or "Kind/name".
func id(s string) object.ID {
	parts := strings.Split(s, "/")
	kind, group, _ := strings.Cut(parts[0], ".")
	out := object.ID{Group: group, Kind: kind, Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		out.Namespace = parts[1]
	}
	return out
}

// spell is the inverse of id.
func spell(id object.ID) string {
	s := id.Kind
	if id.Group != "" {
		s += "." + id.Group
	}
	if id.Namespace != "" {
		s += "/" + id.Namespace
	}
	return s + "/" + id.Name
}

// facts are those of a healthy build of the newest revision that wants nothing of what is stale.
func facts(stale ...plan.Stale) plan.Facts {
	return plan.Facts{
		Now:    now,
		Owner:  plan.Owner{Name: "shop", Namespace: "flux-system", ControllerNamespace: "holdfast-system"},
		Policy: plan.Policy{Prune: true, Timeout: timeout, RetryInterval: retry},
		Build:  plan.Build{Revision: "v2", Newest: "v2", Desired: object.Set{}, Applied: true, Healthy: true},
		Stale:  stale,
		// Alone in the cluster.
		Siblings: plan.Siblings{Known: true},
	}
}

// free is a stale object that no rule holds.
func free(name string) plan.Stale {
	return plan.Stale{
		ID: id(name),
		Seen: plan.Observation{Presence: plan.Present, UID: "uid-" + name, ResourceVersion: "7",
			OwnerName: "shop", OwnerNamespace: "flux-system"},
		Use: plan.Use{Known: true},
	}
}

// limit reads a maxPrune.
func limit(s string) policy.Limit {
	l, err := policy.ParseLimit(s)
	if err != nil {
		panic(err)
	}
	return l
}

// with changes a stale object.
func with(s plan.Stale, changes ...func(*plan.Stale)) plan.Stale {
	for _, change := range changes {
		change(&s)
	}
	return s
}

// outcome says in one line what a plan does with an object.
func outcome(t *testing.T, p plan.Plan, id object.ID) string {
	t.Helper()
	var all []string
	for _, d := range p.Delete {
		if d.ID == id {
			all = append(all, "delete")
		}
	}
	for _, d := range p.Drop {
		if d.ID == id {
			all = append(all, "drop "+string(d.Reason))
		}
	}
	for _, r := range p.Retain {
		if r.ID == id {
			all = append(all, string(r.Reason))
		}
	}
	if len(all) != 1 {
		t.Fatalf("%s is in %d lists of the plan: %v", id, len(all), all)
	}
	return all[0]
}

func hold(t *testing.T, p plan.Plan, id object.ID) plan.Hold {
	t.Helper()
	for _, r := range p.Retain {
		if r.ID == id {
			return r.Hold
		}
	}
	t.Fatalf("%s is not retained", id)
	return plan.Hold{}
}

func wantOutcome(t *testing.T, p plan.Plan, name, want string) {
	t.Helper()
	if got := outcome(t, p, id(name)); got != want {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
}

func retained(reason v1.RetentionReason) string { return string(reason) }
