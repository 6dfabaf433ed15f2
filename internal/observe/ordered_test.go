package observe_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
)

const orderedSet = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop, uid: s1, generation: 2},
spec: {selector: {matchLabels: {app: db}}}, status: {observedGeneration: 2, currentRevision: r1, updateRevision: r3}}`

func TestOrderedSet(t *testing.T) {
	const owned = "ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s1, controller: true}]"
	pod := func(more, status string) string {
		return "{metadata: {name: db-1, namespace: shop, uid: p1, resourceVersion: '7', creationTimestamp: '2026-01-01T00:00:00Z', " +
			"labels: {controller-revision-hash: r2}, " + more + "}, status: {" + status + "}}"
	}
	db := object.ID{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plain := plan.OrderedPod{ID: object.ID{Kind: "Pod", Namespace: "shop", Name: "db-1"}, UID: "p1", ResourceVersion: "7", Revision: "r2", UnreadySince: made}
	with := func(change func(*plan.OrderedPod)) []plan.OrderedPod {
		p := plain
		change(&p)
		return []plan.OrderedPod{p}
	}
	failing := with(func(p *plan.OrderedPod) { p.Failing = true })
	tests := map[string]struct {
		pod  string
		want []plan.OrderedPod
	}{
		"new":                       {pod: pod(owned, ""), want: []plan.OrderedPod{plain}},
		"someone else's":            {pod: pod("ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s0, controller: true}]", "")},
		"starting":                  {pod: pod(owned, "containerStatuses: [{state: {waiting: {reason: ContainerCreating}}}], initContainerStatuses: [{state: {waiting: {reason: PodInitializing}}}]"), want: []plan.OrderedPod{plain}},
		"image is missing":          {pod: pod(owned, "containerStatuses: [{state: {waiting: {reason: ErrImagePull}}}]"), want: failing},
		"init container ended":      {pod: pod(owned, "initContainerStatuses: [{state: {terminated: {exitCode: 1}}}]"), want: failing},
		"init container ended well": {pod: pod(owned, "initContainerStatuses: [{state: {terminated: {exitCode: 0}}}]"), want: []plan.OrderedPod{plain}},
		"ready": {pod: pod(owned, "conditions: [{type: PodScheduled, status: 'True'}, {type: Ready, status: 'True', lastTransitionTime: '2026-01-01T01:00:00Z'}]"),
			want: with(func(p *plan.OrderedPod) { p.Ready, p.UnreadySince = true, made.Add(time.Hour) })},
		"not ready": {pod: pod(owned, "conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-01-01T01:00:00Z'}]"),
			want: with(func(p *plan.OrderedPod) { p.UnreadySince = made.Add(time.Hour) })},
		"leaving": {pod: pod(owned+", deletionTimestamp: '2026-01-01T01:00:00Z'", ""), want: with(func(p *plan.OrderedPod) { p.Leaving = true })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &cluster{objects: map[string]string{"StatefulSet/db": orderedSet, "pods": tt.pod}}
			got, ordered, err := c.observer().OrderedSet(t.Context(), db)
			if err != nil || !ordered || got.ID != db || !got.Observed || got.CurrentRevision != "r1" || got.UpdateRevision != "r3" || len(got.Pods) != len(tt.want) {
				t.Fatalf("%+v %t %v", got, ordered, err)
			}
			for i, want := range tt.want {
				if p := got.Pods[i]; !p.UnreadySince.Equal(want.UnreadySince) {
					t.Errorf("since %v, want %v", p.UnreadySince, want.UnreadySince)
				} else if p.UnreadySince = want.UnreadySince; p != want {
					t.Errorf("%+v, want %+v", p, want)
				}
			}
		})
	}
	for name, tt := range map[string]struct {
		set       string
		fault     error
		wantError bool
	}{
		"gone": {}, "not read": {fault: errors.New("boom"), wantError: true}, "malformed": {set: "{spec: {replicas: many}}", wantError: true},
		"all at once": {set: "{spec: {podManagementPolicy: Parallel}}"}, "by hand": {set: "{spec: {updateStrategy: {type: OnDelete}}}"},
		"bad selector": {set: "{spec: {selector: {matchExpressions: [{key: a, operator: No}]}}}", wantError: true},
	} {
		c := &cluster{objects: map[string]string{"StatefulSet/db": tt.set}, faults: map[string]error{"StatefulSet/db": tt.fault}}
		if _, ordered, err := c.observer().OrderedSet(t.Context(), db); ordered || (err != nil) != tt.wantError {
			t.Errorf("%s: %t %v", name, ordered, err)
		}
	}
	c := &cluster{objects: map[string]string{"StatefulSet/db": orderedSet}, faults: map[string]error{"pods": errors.New("boom")}}
	if _, ordered, err := c.observer().OrderedSet(t.Context(), db); ordered || err == nil {
		t.Errorf("pods that could not be listed: %t %v", ordered, err)
	}
}
