package execute_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Two times of a write.
const t1, t2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"

// set returns a change of one field.
func set(value any, path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

// managed returns managed fields with one entry of somebody.
func managed(manager, subresource, time string) func(*unstructured.Unstructured) {
	return set([]any{map[string]any{"manager": manager, "subresource": subresource, "time": time}}, "metadata", "managedFields")
}

// What was found to be as it is wanted has no dry-run again, unless the manifest or the object is another one.
func TestSettledNeedsNoDryRun(t *testing.T) {
	for name, tt := range map[string]struct {
		job              bool
		manifest, change func(*unstructured.Unstructured)
		want             bool
	}{
		"nothing":               {want: false},
		"the status":            {change: set("x", "status", "phase"), want: false},
		"the resource version":  {change: set("99", "metadata", "resourceVersion"), want: false},
		"a write to the status": {change: managed("kubelet", "status", t1), want: false},
		"a label":               {change: set("x", "metadata", "labels", "l"), want: true},
		"an annotation":         {change: set("x", "metadata", "annotations", "l"), want: true},
		"an owner":              {change: set([]any{map[string]any{"name": "o"}}, "metadata", "ownerReferences"), want: true},
		"data":                  {change: set("x", "data", "k"), want: true},
		"a field":               {change: set(true, "immutable"), want: true},
		"the generation":        {change: set(int64(2), "metadata", "generation"), want: true},
		"the object":            {change: set("another", "metadata", "uid"), want: true},
		"who manages it":        {change: managed("kubectl", "", t1), want: true},
		"who scales it":         {change: managed("autoscaler", "scale", t1), want: true},
		"the manifest":          {manifest: set("x", "data", "m"), want: true},
		"a wanted status":       {manifest: set("x", "status", "phase"), want: true},
		"a Job":                 {job: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := obj("v1", "ConfigMap/a/x")
			if tt.job {
				manifest = obj("batch/v1", "Job/a/x")
			}
			a := newAPI(manifest)
			request := execute.ApplyRequest{Owner: client.ObjectKey{Namespace: "a", Name: "k"}, Objects: []*unstructured.Unstructured{manifest},
				Settled: execute.Settled{}}
			apply := func() (dryRun bool) {
				a.calls = nil
				if _, err := a.executor().Apply(context.Background(), request); err != nil {
					t.Fatal(err)
				}
				return len(a.calls) > 0
			}
			if !apply() {
				t.Fatal("there was no first dry-run")
			}
			if tt.change != nil {
				tt.change(a.objects[object.IDOf(manifest)])
			}
			if tt.manifest != nil {
				tt.manifest(manifest)
			}
			if got := apply(); got != tt.want {
				t.Errorf("dry-run %v, want %v", got, tt.want)
			}
		})
	}
}

// The time of a write to an object does not matter, nor does the order in which its writers are listed.
func TestSettledKnowsTheObjectByWhatWasWritten(t *testing.T) {
	entry := func(manager, time string) any { return map[string]any{"manager": manager, "time": time} }
	manifest := obj("v1", "ConfigMap/a/x")
	a := newAPI(manifest)
	live := a.objects[object.IDOf(manifest)]
	set([]any{entry("a", t1), entry("b", t2)}, "metadata", "managedFields")(live)
	request := execute.ApplyRequest{Objects: []*unstructured.Unstructured{manifest}, Settled: execute.Settled{}}
	for _, want := range []int{1, 1} {
		if _, err := a.executor().Apply(t.Context(), request); err != nil || len(a.calls) != want {
			t.Errorf("%v, %v", a.calls, err)
		}
		set([]any{entry("b", t2), entry("a", t2)}, "metadata", "managedFields")(a.objects[object.IDOf(manifest)])
	}
}

// An object that differs is not settled by being written: what the API server made of it is looked at once more.
func TestSettledAfterAWrite(t *testing.T) {
	manifest := obj("v1", "ConfigMap/a/x")
	a := newAPI()
	request := execute.ApplyRequest{Objects: []*unstructured.Unstructured{manifest}, Settled: execute.Settled{}}
	for _, want := range []int{2, 1, 0} { // the dry-run and the write, the dry-run alone, none
		a.calls = nil
		if _, err := a.executor().Apply(t.Context(), request); err != nil || len(a.calls) != want {
			t.Errorf("%v, %v; want %d calls", a.calls, err, want)
		}
	}
}

// The same change made twice by hand is undone twice: what was undone once is not how the object is wanted.
func TestSettledIsNotWhatWasWrittenOver(t *testing.T) {
	manifest := obj("v1", "ConfigMap/a/x", set("right", "data", "k"))
	a := newAPI(manifest)
	request := execute.ApplyRequest{Objects: []*unstructured.Unstructured{manifest}, Settled: execute.Settled{}}
	apply := func() int {
		a.calls = nil
		if _, err := a.executor().Apply(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		return len(a.calls)
	}
	apply()
	for range 2 {
		set("wrong", "data", "k")(a.objects[object.IDOf(manifest)])
		if got := apply(); got != 2 {
			t.Errorf("%d calls, want a dry-run and a write", got)
		}
	}
}
