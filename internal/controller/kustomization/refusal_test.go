package kustomization

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

// A refusal by a quota or a conflict names the kept objects that may cause it, and no others.
func TestWithKept(t *testing.T) {
	kept := func(reason v1.RetentionReason, kind, namespace, name string) plan.Retention {
		return plan.Retention{ID: object.ID{Kind: kind, Namespace: namespace, Name: name}, Hold: plan.Hold{Reason: reason}}
	}
	const (
		quota  = `Pod/shop/new dry-run failed (Forbidden): pods "new" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1`
		port   = `Service/shop/new dry-run failed (Invalid): Service "new" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated`
		host   = `Ingress/shop/new dry-run failed (BadRequest): admission webhook "validate.nginx" denied the request: host "a.example" and path "/" is already defined in ingress other/old`
		escape = " (to let one go now, annotate it with holdfast.dev/prune: Immediate)"
	)
	tests := map[string]struct {
		err    string
		retain []plan.Retention
		want   string
	}{
		"quota": {err: quota, retain: []plan.Retention{
			kept("AwaitingHealth", "Pod", "shop", "old"), kept("InUse", "ConfigMap", "shop", "cfg"), kept("AwaitingHealth", "Pod", "other", "old")},
			want: "ConfigMap/shop/cfg, Pod/shop/old" + escape},
		"port": {err: port, retain: []plan.Retention{
			kept("AwaitingHealth", "Service", "other", "old"), kept("AwaitingHealth", "ConfigMap", "shop", "cfg")},
			want: "Service/other/old" + escape},
		"host": {err: host, retain: []plan.Retention{kept("AwaitingHealth", "Ingress", "other", "old")}, want: "Ingress/other/old" + escape},
		"in a later line": {err: "ConfigMap/shop/a dry-run failed (Invalid): no\n" + port, retain: []plan.Retention{kept("AwaitingHealth", "Service", "shop", "old")},
			want: "Service/shop/old" + escape},
		"many": {err: port, retain: []plan.Retention{
			kept("AwaitingHealth", "Service", "shop", "a"), kept("AwaitingHealth", "Service", "shop", "b"), kept("AwaitingHealth", "Service", "shop", "c"),
			kept("AwaitingHealth", "Service", "shop", "d"), kept("AwaitingHealth", "Service", "shop", "e")},
			want: "Service/shop/a, Service/shop/b, Service/shop/c and 2 more" + escape},
		"the annotation lets it not go": {err: port, retain: []plan.Retention{
			kept("PruneDisabled", "Service", "shop", "a"), kept("Protected", "Service", "shop", "b"), kept("Terminating", "Service", "shop", "c")}},
		"another refusal": {err: "Service/shop/new dry-run failed (Invalid): spec.ports: Required value", retain: []plan.Retention{kept("AwaitingHealth", "Service", "shop", "old")}},
		"nothing is kept": {err: quota},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := tt.err
			if tt.want != "" {
				want += "\nkept from pruning, and may be the cause: " + tt.want
			}
			refusal := errors.New(tt.err)
			got := withKept(refusal, tt.retain)
			if got.Error() != want || !errors.Is(got, refusal) {
				t.Errorf("got  %v\nwant %s", got, want)
			}
		})
	}
}

// A revision that timed out while stale objects are held names them and the way out.
func TestHeldNamesTheWayOut(t *testing.T) {
	p := passOn(newKustomization())
	for i := range 4 {
		p.plan.Retain = append(p.plan.Retain, plan.Retention{ID: object.ID{Kind: "Service", Namespace: "shop", Name: fmt.Sprint("s", i)},
			Hold: plan.Hold{Reason: v1.RetainedAwaitingHealth}})
	}
	const want = "; kept until a revision is healthy: Service/shop/s0, Service/shop/s1, Service/shop/s2 and 1 more (to let one go now, annotate it with holdfast.dev/prune: Immediate)"
	if got := p.held(); !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
