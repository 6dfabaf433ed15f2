package observe_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/observe"
)

// heap is what is reachable.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap is that large
}

// paged returns an observer of a namespace with pods in pages; each page is asked for by its number.
func paged(pages int, page func(n int) []unstructured.Unstructured) *observe.Observer {
	o := failing(nil)
	o.Reader = interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var lo client.ListOptions
			lo.ApplyOptions(opts)
			l := list.(*unstructured.UnstructuredList)
			if l.GetKind() != "PodList" {
				return nil
			}
			n := 0
			if lo.Continue != "" {
				var err error
				if n, err = strconv.Atoi(lo.Continue); err != nil {
					return err
				}
			}
			l.Items = page(n)
			if n+1 < pages {
				l.SetContinue(strconv.Itoa(n + 1))
			}
			return nil
		}})
	return o
}

// However large the pods are, what is kept of them while the next page is read is little.
func TestPagesAreNotKept(t *testing.T) {
	const pages, perPage, size = 20, 50, 64 << 10
	before, kept := heap(), int64(0)
	o := paged(pages, func(n int) []unstructured.Unstructured {
		if n == pages-1 {
			kept = heap() - before
		}
		items := make([]unstructured.Unstructured, 0, perPage)
		for i := range perPage {
			p := pod(fmt.Sprintf("p%d-%d", n, i), "app")
			p.SetAnnotations(map[string]string{"much": strings.Repeat("x", size)})
			items = append(items, p)
		}
		return items
	})
	use := o.Users(t.Context(), []object.ID{cm}, false)[cm]
	if !use.Known || len(use.Users) != pages*perPage {
		t.Fatalf("known %t (%s), %d users, want %d", use.Known, use.Why, len(use.Users), pages*perPage)
	}
	if listed := int64(pages * perPage * size); kept == 0 || kept > listed/10 {
		t.Errorf("%d bytes are kept of %d that were listed", kept, listed)
	}
}

// BenchmarkUsersOfALargeNamespace lists 10,000 pods in pages, as they are decoded from the API server's answers, and finds the users
// of an object. What is kept when the last page is asked for is a figure of its own.
func BenchmarkUsersOfALargeNamespace(b *testing.B) {
	const perPage = 500
	text, err := podPage(perPage).MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	var before, kept int64
	o := paged(10_000/perPage, func(n int) []unstructured.Unstructured {
		if n == 10_000/perPage-1 && kept == 0 {
			b.StopTimer()
			kept = heap() - before
			b.StartTimer()
		}
		page := &unstructured.UnstructuredList{}
		if err := page.UnmarshalJSON(text); err != nil {
			b.Fatal(err)
		}
		return page.Items
	})
	before = heap()
	b.ReportAllocs()
	for b.Loop() {
		if use := o.Users(b.Context(), []object.ID{cm}, false)[cm]; !use.Known {
			b.Fatal(use.Why)
		}
	}
	b.ReportMetric(float64(kept), "B-kept")
	b.ReportMetric(float64(len(text)*10_000/perPage), "B-listed")
}

// podPage is a page of pods with what pods have: images, environment, probes, and a status.
func podPage(n int) *unstructured.UnstructuredList {
	page := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList"}}
	for i := range n {
		p := pod(fmt.Sprint("p", i), fmt.Sprint("files", i%20))
		p.SetLabels(map[string]string{"app": "a", "pod-template-hash": "h"})
		p.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprint("app-", i%20), UID: "u", Controller: new(true), BlockOwnerDeletion: new(true)}})
		container := map[string]any{"name": "c", "image": "registry.example.com/team/app:v1.2.3", "args": []any{"--a", "--b"},
			"env":            []any{map[string]any{"name": "A", "value": "a"}, map[string]any{"name": "B", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "key", "key": "k"}}}},
			"envFrom":        []any{map[string]any{"configMapRef": map[string]any{"name": "env"}}},
			"readinessProbe": map[string]any{"httpGet": map[string]any{"path": "/ready", "port": int64(8080), "scheme": "HTTP"}, "periodSeconds": int64(10)},
			"resources":      map[string]any{"limits": map[string]any{"cpu": "1", "memory": "1Gi"}, "requests": map[string]any{"cpu": "1", "memory": "1Gi"}}}
		spec := p.Object["spec"].(map[string]any)
		spec["containers"], spec["serviceAccountName"], spec["nodeName"] = []any{container, container}, "app", "node-1"
		p.Object["status"] = map[string]any{"phase": "Running", "podIP": "10.0.0.1", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			"containerStatuses": []any{map[string]any{"name": "c", "ready": true, "imageID": "sha256:0", "state": map[string]any{"running": map[string]any{"startedAt": "2026-01-01T00:00:00Z"}}}}}
		page.Items = append(page.Items, p)
	}
	return page
}
