package health_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// start is when the objects with a creation time were made.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func parse(t testing.TB, doc string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	// Decoded as from the API: whole numbers are int64.
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestKinds judges every object in testdata. The first line of a file holds the state it has to be in. P113: built-in kinds and
// custom resources; P114: Jobs.
func TestKinds(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(data), "\n")
			want := health.Status(strings.TrimPrefix(first, "# want: "))
			u := parse(t, string(data))
			before := u.DeepCopy()
			got := health.Judge(u, health.Options{Now: start.Add(time.Hour)})
			if got.Status != want {
				t.Errorf("got %+v, want %s", got, want)
			}
			if (got.Message == "") == (got.Error == "") && want != health.InProgress {
				t.Errorf("want a message or an error, got %+v", got)
			}
			if !strings.EqualFold(before.GetKind(), u.GetKind()) || !equal(before, u) {
				t.Error("the object was changed")
			}
			// An older read than the write never counts as done.
			if old := health.OfGeneration(u, 4); old.Status == health.Current || old.Status == health.Failed {
				t.Errorf("at generation 4: %+v", old)
			}
		})
	}
}

func equal(a, b *unstructured.Unstructured) bool {
	x, errX := yaml.Marshal(a.Object)
	y, errY := yaml.Marshal(b.Object)
	return errX == nil && errY == nil && string(x) == string(y)
}

func TestUnschedulablePod(t *testing.T) {
	u := parse(t, `{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: "2026-01-01T00:00:00Z"},
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}`)
	tests := map[string]struct {
		now  time.Time
		want health.Status
	}{
		"no clock":  {want: health.InProgress},
		"young":     {now: start.Add(14 * time.Second), want: health.InProgress},
		"old":       {now: start.Add(16 * time.Second), want: health.Failed},
		"past only": {now: start.Add(-time.Hour), want: health.InProgress},
	}
	for name, tt := range tests {
		if got := health.Judge(u, health.Options{Now: tt.now}); got.Status != tt.want {
			t.Errorf("%s: %+v, want %s", name, got, tt.want)
		}
	}
}

// TestCustomResources is C34: who reports a status is waited for, who has none is ready.
func TestCustomResources(t *testing.T) {
	crd := func(status string) *unstructured.Unstructured {
		return parse(t, `{kind: CustomResourceDefinition, spec: {versions: [{name: v1alpha1}, {name: v1, schema: {openAPIV3Schema:
{properties: {spec: {}, `+status+`}}}}]}}`)
	}
	reporting := crd("status: {properties: {conditions: {type: array}, observedGeneration: {type: integer}}}")
	for name, tt := range map[string]struct {
		crd     *unstructured.Unstructured
		version string
		want    bool
	}{
		"conditions":      {crd: reporting, version: "v1", want: true},
		"other version":   {crd: reporting, version: "v1alpha1"},
		"unknown version": {crd: reporting, version: "v2"},
		"no status":       {crd: crd("x: {}"), version: "v1"},
		"other status":    {crd: crd("status: {properties: {url: {}}}"), version: "v1"},
	} {
		if got := health.ReportsStatus(tt.crd, tt.version); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	fresh := parse(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, generation: 1}}")
	if got := health.Judge(fresh, health.Options{ReportsStatus: true}); got.Status != health.InProgress {
		t.Errorf("not looked at: %+v", got)
	}
	if got := health.Of(fresh); got.Status != health.Current {
		t.Errorf("static: %+v", got)
	}
}

// P115: a Job that its time to live removed is as good as complete.
func TestAbsent(t *testing.T) {
	for doc, want := range map[string]health.Status{
		"{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 0}}": health.Current,
		"{apiVersion: batch/v1, kind: Job, spec: {}}":                           health.NotFound,
		"{apiVersion: v1, kind: Pod, spec: {ttlSecondsAfterFinished: 0}}":       health.NotFound,
	} {
		if got := health.Absent(parse(t, doc)); got.Status != want {
			t.Errorf("%s: %+v, want %s", doc, got, want)
		}
	}
	if got := health.Absent(nil); got.Status != health.NotFound {
		t.Errorf("nil: %+v", got)
	}
}

func TestIsWorkload(t *testing.T) {
	for id, want := range map[object.ID]bool{
		{Group: "apps", Kind: "Deployment"}:         true,
		{Group: "batch", Kind: "Job"}:               true,
		{Kind: "Pod"}:                               true,
		{Kind: "ConfigMap"}:                         false,
		{Group: "argoproj.io", Kind: "Rollout"}:     false,
		{Group: "example.com", Kind: "Deployment"}:  false,
		{Group: "batch", Kind: "CronJob"}:           false,
		{Kind: "PersistentVolumeClaim", Name: "db"}: false,
	} {
		if got := health.IsWorkload(id); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

// TestNeverPanics feeds kinds that have rules with trees that no API server would store.
func TestNeverPanics(t *testing.T) {
	kinds := []string{"v1 Pod", "apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "apps/v1 ReplicaSet",
		"batch/v1 Job", "v1 PersistentVolumeClaim", "v1 Service", "apiextensions.k8s.io/v1 CustomResourceDefinition", "x/v1 Y"}
	rapid.Check(t, func(t *rapid.T) {
		apiVersion, kind, _ := strings.Cut(rapid.SampledFrom(kinds).Draw(t, "kind"), " ")
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
		for _, part := range []string{"spec", "status"} {
			u.Object[part] = tree(3).Draw(t, part)
		}
		got := health.Judge(u, health.Options{ReportsStatus: rapid.Bool().Draw(t, "reports"), Now: start})
		if got.Status == "" {
			t.Fatalf("no status: %+v", got)
		}
	})
}

// tree generates JSON values whose keys and strings are those that the rules look at.
func tree(depth int) *rapid.Generator[any] {
	words := rapid.SampledFrom([]string{"", "type", "status", "True", "False", "Failed", "Complete", "Pending", "Running",
		"OnDelete", "PodScheduled", "Unschedulable", "x"})
	keys := rapid.SampledFrom([]string{"conditions", "phase", "replicas", "observedGeneration", "updateStrategy",
		"rollingUpdate", "partition", "paused", "suspend", "containerStatuses", "type", "status", "reason", "name", "state",
		"waiting", "desiredNumberScheduled"})
	return rapid.Custom(func(t *rapid.T) any {
		top := 5
		if depth == 0 {
			top = 3
		}
		switch rapid.IntRange(0, top).Draw(t, "shape") {
		case 0:
			return nil
		case 1:
			return words.Draw(t, "word")
		case 2:
			return rapid.Int64().Draw(t, "number")
		case 3:
			return rapid.Bool().Draw(t, "flag")
		case 4:
			items := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
			for i := range items {
				items[i] = tree(depth-1).Draw(t, "item")
			}
			return items
		default:
			m := map[string]any{}
			for range rapid.IntRange(0, 5).Draw(t, "fields") {
				m[keys.Draw(t, "key")] = tree(depth-1).Draw(t, "value")
			}
			return m
		}
	})
}
