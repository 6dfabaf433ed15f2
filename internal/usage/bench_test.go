package usage_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// crowd is a namespace of 10,000 pods of 200 ReplicaSets, as the API server shows them, and what they refer to.
func crowd(b *testing.B) (live usage.Live, targets object.Set) {
	b.Helper()
	const podSpec = `{serviceAccountName: app%[1]d, containers: [
    {name: app, image: "registry/app:1", command: [a, b], resources: {limits: {cpu: 1, memory: 1Gi}}, envFrom: [{configMapRef: {name: env%[1]d}}],
     env: [{name: A, value: a}, {name: B, value: b}, {name: P, valueFrom: {secretKeyRef: {name: key%[1]d, key: k}}}]},
    {name: proxy, image: "registry/proxy:1", env: [{name: C, value: c}]}],
  volumes: [{name: v, configMap: {name: files%[1]d}}, {name: t, projected: {sources: [{serviceAccountToken: {path: t}}, {configMap: {name: kube-root-ca.crt}}]}}]}`
	targets = object.Set{}
	for set := range 200 {
		spec := fmt.Sprintf(podSpec, set)
		owner := fmt.Sprintf("ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: app%d, uid: u, controller: true}]", set)
		live = append(live, objects(b, rs(fmt.Sprintf("app%d", set), "{replicas: 50, template: {spec: "+spec+"}}"))...)
		pod := objects(b, podDoc("app", "Running", spec, owner, "labels: {app: a, pod-template-hash: h}"))[0]
		for i := range 50 {
			one := pod.DeepCopy()
			one.SetName(fmt.Sprintf("app%d-%d", set, i))
			live = append(live, one)
		}
		for _, name := range []string{"env", "files", "old"} {
			targets[inShop("", "ConfigMap", fmt.Sprint(name, set))] = struct{}{}
		}
		targets[inShop("", "Secret", fmt.Sprint("key", set))] = struct{}{}
		targets[inShop("", "ServiceAccount", fmt.Sprint("app", set))] = struct{}{}
	}
	return live, targets
}

// BenchmarkUsers finds the users of 1,000 objects among 10,000 pods.
func BenchmarkUsers(b *testing.B) {
	live, targets := crowd(b)
	stale := usage.Stale{Leaving: targets}
	b.ReportAllocs()
	for b.Loop() {
		if found, err := usage.Among(targets, live, stale); err != nil || len(found) != 800 {
			b.Fatalf("%d are in use (%v), want 800", len(found), err)
		}
	}
}

// BenchmarkTrim trims 10,000 pods.
func BenchmarkTrim(b *testing.B) {
	live, _ := crowd(b)
	b.ReportAllocs()
	for b.Loop() {
		var trimmer usage.Trimmer
		for _, u := range live {
			trimmer.Trim(u)
		}
	}
}

// BenchmarkMentions looks for 1,000 names in 1,000 custom resources.
func BenchmarkMentions(b *testing.B) {
	targets := object.Set{}
	for i := range 1000 {
		targets[inShop("", "ConfigMap", fmt.Sprintf("app%d-g5b2m5gtd8", i))] = struct{}{}
	}
	var live usage.Live
	for i := range 1000 {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
			"metadata": map[string]any{"name": fmt.Sprint("t", i), "namespace": "shop"},
			"spec":     map[string]any{"config": fmt.Sprintf("app%d-g5b2m5gtd8", i), "more": []any{"a", "b", map[string]any{"c": "d"}}}}}
		live = append(live, u)
	}
	b.ReportAllocs()
	for b.Loop() {
		if found, err := usage.Find(targets, live); err != nil || len(found) != 1000 {
			b.Fatalf("%d are in use (%v), want 1000", len(found), err)
		}
	}
}
