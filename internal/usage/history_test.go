package usage_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// A revision in the history refers to what a rollback would need, at zero and whoever owns it; what Find says of it does not
// change.
func TestHistory(t *testing.T) {
	revision := func(name, template, owner string) string {
		return "apiVersion: apps/v1\nkind: ControllerRevision\n" + meta(name, owner) + "data: {spec: {template: " + template + "}}"
	}
	tests := map[string]struct {
		doc  string
		want []string
	}{
		"ReplicaSet at zero":                  {doc: rs("web-1", "{replicas: 0, template: "+template+"}", ownedByWeb), want: []string{"ReplicaSet/shop/web-1"}},
		"ReplicaSet with replicas":            {doc: rs("web-1", "{replicas: 2, template: "+template+"}", ownedByWeb), want: []string{"ReplicaSet/shop/web-1"}},
		"ReplicaSet of nobody":                {doc: rs("web-1", "{replicas: 0, template: "+template+"}"), want: []string{"ReplicaSet/shop/web-1"}},
		"ReplicaSet with another config":      {doc: rs("web-1", "{replicas: 0, template: "+other+"}", ownedByWeb)},
		"ControllerRevision of a StatefulSet": {doc: revision("db-1", template, ownedByDB), want: []string{"ControllerRevision/shop/db-1"}},
		"ControllerRevision of a DaemonSet":   {doc: revision("ds-1", template, ownedByDS), want: []string{"ControllerRevision/shop/ds-1"}},
		"ControllerRevision, another config":  {doc: revision("ds-1", other, ownedByDS)},
		"a Pod is no revision":                {doc: podDoc("p", "Running", uses)},
		"another namespace":                   {doc: rs("web-1", "{replicas: 0, template: "+template+"}", "namespace: elsewhere")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := usage.History(object.NewSet(cfg), objects(t, tt.doc))
			if err != nil || !slices.Equal(usage.Summary(got[cfg]), tt.want) {
				t.Errorf("%v %v, want %v", usage.Summary(got[cfg]), err, tt.want)
			}
		})
	}
}

// A revision that can't be understood makes the answer unknown, and says which one.
func TestHistoryMalformed(t *testing.T) {
	live := objects(t, rs("bad", "{replicas: 0, template: {spec: {containers: 7}}}"), rs("good", "{replicas: 0, template: "+template+"}"))
	got, err := usage.History(object.NewSet(cfg), live)
	var malformed *usage.MalformedError
	if !errors.As(err, &malformed) || malformed.ID.Name != "bad" || len(got[cfg]) != 1 {
		t.Errorf("%v %v", got, err)
	}
}
