package kustomization

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/artifact"
)

// P144: the interval is spread by up to the percentage in either direction, and by none without.
func TestIntervalIsSpread(t *testing.T) {
	p := passOn(newKustomization())
	if got := p.interval(); got != time.Hour {
		t.Errorf("without a jitter the interval is %s", got)
	}
	p.IntervalJitterPercentage = 10
	different := map[time.Duration]bool{}
	for range 100 {
		got := p.interval()
		if got < 54*time.Minute || got > 66*time.Minute {
			t.Fatalf("the interval is %s", got)
		}
		different[got] = true
	}
	if len(different) < 50 {
		t.Errorf("100 intervals are only %d different ones", len(different))
	}
}

// P181: a Kustomization of another shard is left alone, and what was known of it forgotten, also when it comes from the queue.
func TestAnotherShardIsLeftAlone(t *testing.T) {
	ks := newKustomization()
	ks.Labels = map[string]string{"shard": "b"}
	p, s := passAgainst(ks) // every write but that of the status panics
	p.Shard = labels.SelectorFromSet(labels.Set{"shard": "a"})
	p.memories.of(keyOf(ks), ks.UID).nextApply = now
	result, err := p.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(ks)})
	if err != nil || result != (reconcile.Result{}) || len(s.stored) > 0 {
		t.Errorf("%+v, %v, stored %v", result, err, s.stored)
	}
	if again := p.memories.of(keyOf(ks), ks.UID); !again.nextApply.IsZero() {
		t.Error("it is remembered")
	}
}

// P145: a failure is tried again after the retry interval, or else the interval, neither spread nor growing.
func TestRetryDoesNotGrow(t *testing.T) {
	for name, tt := range map[string]struct {
		retry *metav1.Duration
		want  time.Duration
	}{
		"retryInterval": {&metav1.Duration{Duration: 2 * time.Minute}, 2 * time.Minute},
		"interval":      {nil, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			ks := newKustomization()
			ks.Spec.RetryInterval = tt.retry
			p := passOn(ks)
			p.IntervalJitterPercentage = 50
			for range 10 {
				if out := p.failed(fluxmeta.BuildFailedReason, errors.New("no")); out.after != tt.want || out.err != nil {
					t.Fatalf("after %s, error %v", out.after, out.err)
				}
			}
		})
	}
}

// P146: errors outside the pipeline are left to the queue, whose delays grow from the least to the most.
func TestBackOff(t *testing.T) {
	for name, tt := range map[string]struct {
		options Options
		want    []time.Duration
	}{
		"standard": {Options{}, []time.Duration{750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}},
		"set":      {Options{MinRetryDelay: time.Second, MaxRetryDelay: 3 * time.Second}, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := backOff(tt.options)
			for i, want := range tt.want {
				if got := limiter.When(reconcile.Request{}); got != want {
					t.Errorf("failure %d: %s, want %s", i+1, got, want)
				}
			}
		})
	}
	for kind, want := range map[string]string{"GitRepository": "unable to get source 'flux-system/app': ", "status": "write status: "} {
		t.Run(kind, func(t *testing.T) {
			p, s := passAgainst(newKustomization())
			s.faults[kind] = errors.New("no answer")
			out := outcome{state: stateReady, message: "Applied revision: main@sha1:abc"}
			if kind == "GitRepository" {
				out = *p.resolve(t.Context())
			}
			p.Recorder = &recorder{}
			result, err := p.finish(t.Context(), out)
			if err == nil || !strings.HasPrefix(err.Error(), want) || result != (reconcile.Result{}) {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}

// P157: an object that is deleted before it had the finalizer is let go without an error or a write.
func TestDeletionBeforeTheFinalizer(t *testing.T) {
	ks := newKustomization()
	ks.Finalizers, ks.DeletionTimestamp = []string{"example.com/other"}, deletedAt(now)
	p, s := passAgainst(ks) // every write but that of the status panics
	result, err := p.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(ks)})
	if err != nil || result != (reconcile.Result{}) || len(s.stored) > 0 || len(s.deleted) > 0 {
		t.Errorf("%+v, %v, stored %v, deleted %v", result, err, s.stored, s.deleted)
	}
}

// P126: what makes a dependency ready.
func TestReadinessOfADependency(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(dep *v1.Kustomization)
		want   string
	}{
		"ready":               {func(*v1.Kustomization) {}, ""},
		"without conditions":  {func(dep *v1.Kustomization) { dep.Status.Conditions = nil }, "dependency 'flux-system/base' is not ready"},
		"not ready":           {func(dep *v1.Kustomization) { dep.Status.Conditions[0].Status = metav1.ConditionFalse }, "dependency 'flux-system/base' is not ready"},
		"of an older spec":    {func(dep *v1.Kustomization) { dep.Generation++ }, "dependency 'flux-system/base' is not ready"},
		"at another revision": {func(dep *v1.Kustomization) { dep.Status.LastAppliedRevision = "main@sha1:old" }, "dependency 'flux-system/base' revision is not up to date"},
		"of another source":   {func(dep *v1.Kustomization) { dep.Spec.SourceRef.Name, dep.Status.LastAppliedRevision = "other", "v1" }, ""},
		"of another kind":     {func(dep *v1.Kustomization) { dep.Spec.SourceRef.Kind, dep.Status.LastAppliedRevision = "Bucket", "v1" }, ""},
		"of another namespace": {func(dep *v1.Kustomization) {
			dep.Spec.SourceRef.Namespace, dep.Status.LastAppliedRevision = "shop", "v1"
		}, ""},
		"of the same, said aloud": {func(dep *v1.Kustomization) {
			dep.Spec.SourceRef.Namespace, dep.Status.LastAppliedRevision = "flux-system", "v1"
		}, "dependency 'flux-system/base' revision is not up to date"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := passAgainst(newKustomization())
			dep := newKustomization()
			dep.Name, dep.Spec.SourceRef = "base", p.ks.Spec.SourceRef
			dep.Status.ObservedGeneration, dep.Status.LastAppliedRevision = dep.Generation, p.artifact.Revision
			dep.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
			tt.change(dep)
			if got := p.conditionsProblem(keyOf(dep), dep); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// P135: without a directory for temporary files a pass fails with the reason for it, and does not tell where that was.
func TestDirectoryCreationFailed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	p := passOn(newKustomization())
	p.Artifacts = artifact.NewShelf(artifact.NewReader(artifact.ReaderOptions{}))
	result, out := p.render(t.Context(), inputs{})
	if result != nil || out == nil || out.reason != "DirectoryCreationFailed" || out.state != stateFailed {
		t.Fatalf("%+v, %+v", result, out)
	}
	if strings.Contains(out.message, missing) || !strings.Contains(out.message, "no such file or directory") {
		t.Errorf("the message is %q", out.message)
	}
}
