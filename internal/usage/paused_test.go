package usage_test

import (
	"slices"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// The newest ReplicaSet of a paused Deployment is the one with the highest number; without numbers the youngest, and of two of
// one age always the same one.
func TestNewestReplicaSet(t *testing.T) {
	numbered := func(n string) string { return `annotations: {deployment.kubernetes.io/revision: "` + n + `"}` }
	created := func(day string) string { return `creationTimestamp: "2026-01-` + day + `T00:00:00Z"` }
	for name, tt := range map[string]struct {
		sets map[string][]string
		want string
	}{
		"by number":                 {map[string][]string{"a": {numbered("10"), created("01")}, "b": {numbered("9"), created("02")}}, "a"},
		"by age":                    {map[string][]string{"a": {created("02")}, "b": {created("01")}}, "a"},
		"a number goes before none": {map[string][]string{"a": {numbered("1"), created("01")}, "b": {numbered("x"), created("02")}}, "a"},
		"of one age":                {map[string][]string{"a": {numbered("1")}, "b": {numbered("1")}}, "b"},
	} {
		docs := []string{"apiVersion: apps/v1\nkind: Deployment\n" + meta("web") + "spec: {paused: true, template: " + other + "}"}
		for set, more := range tt.sets {
			docs = append(docs, rs(set, "{replicas: 0, template: "+template+"}", append(more, ownedByWeb)...))
		}
		live := objects(t, docs...)
		for range 2 {
			got, err := usage.Find(object.NewSet(cfg), live)
			if users := got[cfg]; err != nil || len(users) != 1 || users[0].ID.Name != tt.want {
				t.Errorf("%s: users %v (%v), want the replica set %s", name, users, err, tt.want)
			}
			slices.Reverse(live)
		}
	}
}

// One that says of itself in a way that can't be understood whether it is paused counts as paused.
func TestPausedWithoutAnAnswer(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\n" + meta("web") + "spec: {paused: maybe, template: " + other + "}"
	got, err := usage.Find(object.NewSet(cfg), objects(t, deployment, rs("a", "{replicas: 0, template: "+template+"}", ownedByWeb)))
	if err != nil || len(got[cfg]) != 1 {
		t.Errorf("users %v (%v), want the replica set", got[cfg], err)
	}
}
