package build_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/build"
)

// merging is a custom resource with a list that a patch adds to. Without a schema the patch replaces the list; with one
// that names the merge key it adds an item.
func merging(schema bool) files {
	f := files{
		"w.yaml": "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {parts: [{name: a, v: 1}]}\n",
		"p.yaml": "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {parts: [{name: b, v: 2}]}\n",
	}
	k := "resources: [w.yaml]\npatches: [{path: p.yaml}]\n"
	if schema {
		k += "openapi: {path: s.json}\n"
		f["s.json"] = `{"definitions": {"w": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
"properties": {"spec": {"type": "object", "properties": {"parts": {"type": "array", "x-kubernetes-patch-merge-key": "name",
"x-kubernetes-patch-strategy": "merge", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}}}}`
	}
	f["kustomization.yaml"] = k
	return f
}

func parts(t testing.TB, root string) int {
	got, err := build.Build(root, at(""), build.Options{})
	if err != nil {
		t.Error(err)
		return -1
	}
	text, err := got.Objects[0].MarshalJSON()
	if err != nil {
		t.Error(err)
	}
	return strings.Count(string(text), `"v":`)
}

// TestSchemaIsolation is P42: the schema of one build does not reach the next one.
func TestSchemaIsolation(t *testing.T) {
	with, without := write(t, merging(true)), write(t, merging(false))
	for range 2 {
		if n := parts(t, without); n != 1 {
			t.Errorf("without a schema: %d parts, want 1", n)
		}
		if n := parts(t, with); n != 2 {
			t.Errorf("with a schema: %d parts, want 2", n)
		}
	}
}

// TestParallel runs builds of all sorts at once; the race detector and the digests watch.
func TestParallel(t *testing.T) {
	with, without := write(t, merging(true)), write(t, merging(false))
	plain := write(t, files{
		"kustomization.yaml": "resources: [deploy.yaml]\nnamespace: shop\nconfigMapGenerator: [{name: app, literals: [k=1]}]\n" +
			"patches: [{patch: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {spec: {containers: [{name: side, image: x}]}}}}'}]",
		"deploy.yaml": deploy,
	})
	broken := write(t, files{"kustomization.yaml": "resources: [nope.yaml]"})
	want, err := build.Build(plain, at(""), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			switch i % 6 {
			case 0:
				if n := parts(t, with); n != 2 {
					t.Errorf("with a schema: %d parts", n)
				}
			case 1:
				if n := parts(t, without); n != 1 {
					t.Errorf("without a schema: %d parts", n)
				}
			case 2:
				if _, err := build.Build(broken, at(""), build.Options{}); err == nil {
					t.Error("a broken build passed")
				}
			default:
				got, err := build.Build(plain, at(""), build.Options{})
				if err != nil || got.Digest != want.Digest {
					t.Errorf("digest %s, want %s (%v)", got.Digest, want.Digest, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkBuild(b *testing.B) {
	f := files{"kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator: [{name: app, literals: [k=1]}]"}
	var all strings.Builder
	for i := range 5 {
		fmt.Fprintf(&all, "---\n%s", cm(fmt.Sprint("c", i)))
	}
	f["a.yaml"] = all.String()
	root := write(b, f)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := build.Build(root, at(""), build.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
