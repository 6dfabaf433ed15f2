package plan_test

import (
	"slices"
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// What was seen of the object itself. P101: who owns it, and what its metadata says; P102: what is gone counts as deleted.
func TestObjectGuards(t *testing.T) {
	const x, crd = "ConfigMap/a/x", "CustomResourceDefinition.apiextensions.k8s.io/databases.example.com"
	seen := func(change func(*plan.Observation)) plan.Stale {
		return with(free(x), func(s *plan.Stale) { change(&s.Seen) })
	}
	used := func(name string, use plan.Use) plan.Stale {
		return with(free(name), func(s *plan.Stale) { s.Use = use })
	}
	users := plan.Use{Known: true, Users: []string{"Pod/a/q", "Pod/a/p"}}
	refusedAgo := func(d time.Duration) plan.Stale {
		return with(free(x), func(s *plan.Stale) { s.Refused = &plan.Refusal{At: now.Add(-d), Message: "webhook says no"} })
	}
	const inUse, unverified, terminating = "InUse", "Unverified", "Terminating"
	tests := map[string]struct {
		stale       plan.Stale
		policy      func(*plan.Policy)
		want        string
		wantMessage string
		wantUntil   string
		wantUsers   []string
		wantRecheck time.Duration
	}{
		"unread":           {stale: plan.Stale{ID: id(x)}, want: unverified, wantMessage: "it was not read", wantUntil: "it can be read", wantRecheck: 10 * time.Second},
		"unreadable":       {stale: seen(func(o *plan.Observation) { *o = plan.Observation{Why: "forbidden"} }), want: unverified, wantMessage: "forbidden", wantUntil: "it can be read", wantRecheck: 10 * time.Second},
		"unread, but used": {stale: seen(func(o *plan.Observation) { o.Presence = plan.Unknown }), want: unverified, wantMessage: "it was not read", wantUntil: "it can be read", wantRecheck: 10 * time.Second},
		"gone":             {stale: seen(func(o *plan.Observation) { *o = plan.Observation{Presence: plan.Absent} }), want: "drop Gone"},
		"other name":       {stale: seen(func(o *plan.Observation) { o.OwnerName = "other" }), want: "drop Foreign"},
		"other namespace":  {stale: seen(func(o *plan.Observation) { o.OwnerNamespace = "other" }), want: "drop Foreign"},
		"no namespace":     {stale: seen(func(o *plan.Observation) { o.OwnerNamespace = "" }), want: "drop Foreign"},
		"foreign and disabled": {stale: seen(func(o *plan.Observation) { o.OwnerName, o.DisabledBy = "other", "prune: disabled" }),
			want: "drop Foreign"},
		"without UID":             {stale: seen(func(o *plan.Observation) { o.UID = "" }), want: unverified, wantMessage: "it was read without UID or resourceVersion", wantUntil: "it can be read", wantRecheck: 10 * time.Second},
		"without resourceVersion": {stale: seen(func(o *plan.Observation) { o.ResourceVersion = "" }), want: unverified, wantMessage: "it was read without UID or resourceVersion", wantUntil: "it can be read", wantRecheck: 10 * time.Second},
		"disabled": {stale: seen(func(o *plan.Observation) { o.DisabledBy = "prune: disabled" }), want: "PruneDisabled",
			wantMessage: "prune: disabled", wantUntil: "its metadata no longer says prune: disabled"},
		"disabled, order AfterApply": {stale: seen(func(o *plan.Observation) { o.DisabledBy = "reconcile: disabled" }), want: "PruneDisabled",
			policy:      func(p *plan.Policy) { p.Order = v1.PruneAfterApply },
			wantMessage: "reconcile: disabled", wantUntil: "its metadata no longer says reconcile: disabled"},
		"terminating": {stale: seen(func(o *plan.Observation) { o.DeletedAt, o.Finalizers = now, []string{"z", "a"} }), want: terminating,
			wantMessage: "waits for finalizers a, z since 2026-03-01T12:00:00Z", wantUntil: "it is gone", wantRecheck: 2 * time.Second},
		"terminating since long ago": {stale: seen(func(o *plan.Observation) { o.DeletedAt = now.Add(-24 * time.Hour) }), want: terminating,
			wantUntil: "it is gone", wantRecheck: 2 * time.Second},

		"in use":              {stale: used(x, users), want: inUse, wantUsers: []string{"Pod/a/p", "Pod/a/q"}, wantUntil: "nothing that runs refers to it", wantRecheck: 5 * time.Second},
		"users unknown":       {stale: used(x, plan.Use{}), want: unverified, wantMessage: "its users could not be listed: nobody looked", wantUntil: "they can be listed", wantRecheck: 10 * time.Second},
		"users not listed":    {stale: used(x, plan.Use{Why: "list pods: forbidden"}), want: unverified, wantMessage: "its users could not be listed: list pods: forbidden", wantUntil: "they can be listed", wantRecheck: 10 * time.Second},
		"in use, retain None": {stale: used(x, users), policy: func(p *plan.Policy) { p.Retain = v1.RetainNone }, want: "delete", wantRecheck: time.Second},
		"in use, AfterApply":  {stale: used(x, users), policy: func(p *plan.Policy) { p.Order = v1.PruneAfterApply }, want: "delete", wantRecheck: time.Second},
		"in use, retain InUse": {stale: used(x, users), policy: func(p *plan.Policy) { p.Retain = v1.RetainInUse }, want: inUse,
			wantUsers: []string{"Pod/a/p", "Pod/a/q"}, wantUntil: "nothing that runs refers to it", wantRecheck: 5 * time.Second},
		"definition with resources": {stale: used(crd, plan.Use{Known: true, Users: []string{"Database/a/db"}}), want: "Protected",
			wantMessage: "its deletion would delete Database/a/db",
			wantUsers:   []string{"Database/a/db"}, wantUntil: "nothing is in it", wantRecheck: 5 * time.Second},
		"definition with resources, retain None": {stale: used(crd, plan.Use{Known: true, Users: []string{"Database/a/db"}}), want: "Protected",
			policy:      func(p *plan.Policy) { p.Retain, p.Order = v1.RetainNone, v1.PruneAfterApply },
			wantMessage: "its deletion would delete Database/a/db",
			wantUsers:   []string{"Database/a/db"}, wantUntil: "nothing is in it", wantRecheck: 5 * time.Second},
		"definition whose resources are unknown": {stale: used(crd, plan.Use{}), want: unverified,
			policy:      func(p *plan.Policy) { p.Retain = v1.RetainNone },
			wantMessage: "its users could not be listed: nobody looked", wantUntil: "they can be listed", wantRecheck: 10 * time.Second},
		"definition without resources": {stale: free(crd), want: "delete", wantRecheck: time.Second},

		"refused before the clock went back": {stale: refusedAgo(-time.Second), want: "delete", wantRecheck: time.Second},
		"refused just now":                   {stale: refusedAgo(0), want: "DeleteFailed", wantMessage: "webhook says no", wantUntil: "the API server accepts the deletion", wantRecheck: retry},
		"refused a while ago":                {stale: refusedAgo(retry - time.Second), want: "DeleteFailed", wantMessage: "webhook says no", wantUntil: "the API server accepts the deletion", wantRecheck: time.Second},
		"refused, due again":                 {stale: refusedAgo(retry), want: "delete", wantRecheck: time.Second},
		"refused, now in use":                {stale: with(refusedAgo(0), func(s *plan.Stale) { s.Use = users }), want: inUse, wantUsers: []string{"Pod/a/p", "Pod/a/q"}, wantUntil: "nothing that runs refers to it", wantRecheck: 5 * time.Second},
		"refused, now deleted":               {stale: with(refusedAgo(0), func(s *plan.Stale) { s.Seen.DeletedAt = now }), want: terminating, wantUntil: "it is gone", wantRecheck: 2 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := facts(tt.stale)
			if tt.policy != nil {
				tt.policy(&f.Policy)
			}
			p := plan.Prune(f)
			if got := outcome(t, p, tt.stale.ID); got != tt.want {
				t.Fatalf("%s, want %s", got, tt.want)
			}
			if len(p.Retain) == 1 {
				got := p.Retain[0]
				if got.Message != tt.wantMessage || got.Until != tt.wantUntil || !slices.Equal(got.Users, tt.wantUsers) {
					t.Errorf("%+v", got)
				}
			}
			if p.Recheck != tt.wantRecheck {
				t.Errorf("look again after %s, want %s", p.Recheck, tt.wantRecheck)
			}
		})
	}
}

func TestProtectedNamespaces(t *testing.T) {
	inside := with(free("ConfigMap/team/x"), func(s *plan.Stale) { s.Use.Users = []string{"Pod/team/p"} })
	const holds = "it still holds "
	tests := map[string]struct {
		name        string
		others      []plan.Stale
		desired     object.Set
		want        string
		wantMessage string
	}{
		"empty":                   {name: "Namespace/team", want: "delete"},
		"default":                 {name: "Namespace/default", want: "Protected", wantMessage: "this Namespace is never pruned"},
		"kube-system":             {name: "Namespace/kube-system", want: "Protected", wantMessage: "this Namespace is never pruned"},
		"the Kustomization's own": {name: "Namespace/flux-system", want: "Protected", wantMessage: "this Namespace is never pruned"},
		"the controller's own":    {name: "Namespace/holdfast-system", want: "Protected", wantMessage: "this Namespace is never pruned"},
		"kubernetes-dashboard":    {name: "Namespace/kubernetes-dashboard", want: "delete"},
		"holds a kept object":     {name: "Namespace/team", others: []plan.Stale{inside}, want: "Protected", wantMessage: holds + "ConfigMap/team/x"},
		"holds a wanted object": {name: "Namespace/team", desired: object.NewSet(id("Secret/team/z"), id("Secret/team/a")),
			want: "Protected", wantMessage: holds + "Secret/team/a"},
		"holds an object that can't be read": {name: "Namespace/team", others: []plan.Stale{{ID: id("ConfigMap/team/x")}},
			want: "Protected", wantMessage: holds + "ConfigMap/team/x"},
		"holds one that is deleted along": {name: "Namespace/team", others: []plan.Stale{free("ConfigMap/team/x")},
			want: "Protected", wantMessage: holds + "ConfigMap/team/x"},
		"holds one that is gone": {name: "Namespace/team", want: "delete",
			others: []plan.Stale{with(inside, func(s *plan.Stale) { s.Seen = plan.Observation{Presence: plan.Absent} })}},
		"others hold something":     {name: "Namespace/team", others: []plan.Stale{free("ConfigMap/teams/x")}, want: "delete"},
		"another kind of Namespace": {name: "Namespace.example.com/a/default", want: "delete"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, order := range []v1.PruneOrder{v1.PruneAfterHealthy, v1.PruneAfterApply} {
				f := facts(append(tt.others, free(tt.name))...)
				f.Policy.Order, f.Build.Desired = order, tt.desired
				p := plan.Prune(f)
				wantOutcome(t, p, tt.name, tt.want)
				if tt.want == "Protected" && hold(t, p, id(tt.name)).Message != tt.wantMessage {
					t.Errorf("%s: %s", order, hold(t, p, id(tt.name)).Message)
				}
			}
		})
	}
}

func TestReasons(t *testing.T) {
	p := plan.Prune(facts(plan.Stale{ID: id("ConfigMap/a/x")}, plan.Stale{ID: id("ConfigMap/a/y")}, free("Namespace/default")))
	got := p.Reasons()
	if len(got) != 2 || got[v1.RetainedUnverified] != 2 || got[v1.RetainedProtected] != 1 {
		t.Errorf("%v", got)
	}
}
