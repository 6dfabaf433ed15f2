package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// shortJob is a Job that ends well at once and is deleted some seconds after that.
func shortJob(name string, ttl int, step string) string { return endingJob(name, "exit0", ttl, step) }

// endingJob is a Job whose one pod runs an image with the given tag, and that is deleted some seconds after it ended.
func endingJob(name, tag string, ttl int, step string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  ttlSecondsAfterFinished: %d
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.example/web:%s", args: [%q]}]
`, name, ttl, tag, step)
}

func (s *scenario) jobOf(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// countRuns counts the Jobs that come into being from now on, until the test ends.
func (s *scenario) countRuns() (runs func() int) {
	s.t.Helper()
	watching, err := watchClient()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	w, err := watching.Watch(ctx, &batchv1.JobList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatalf("watch Jobs: %v", err)
	}
	var mu sync.Mutex
	uids := map[string]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if job, ok := e.Object.(*batchv1.Job); ok && e.Type == watch.Added {
				mu.Lock()
				uids[string(job.UID)] = true
				mu.Unlock()
			}
		}
	}()
	s.t.Cleanup(func() { w.Stop(); <-done })
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(uids)
	}
}

// TestC35RunsOnce: a Job with a time to live, of none or of some seconds, is not run again after it went: not on request, not by a
// new process, not with a commit that leaves it alone. A changed one is.
func TestC35RunsOnce(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	h := s.run()
	runs := s.countRuns()
	files := map[string]string{"now.yaml": shortJob("now", 0, "1"), "soon.yaml": shortJob("soon", 3, "1")}
	r1 := s.push(files)
	s.follow()
	s.deploy("jobs")
	s.awaitReady("jobs", r1)
	for _, name := range []string{"now", "soon"} {
		eventuallyGone(t, within, s.jobOf(name))
	}
	s.await("jobs", "remembering both", func(ks *v1.Kustomization) error {
		if n := len(ks.Status.Rollout.CompletedJobs); n != 2 {
			return fmt.Errorf("it remembers %v", ks.Status.Rollout.CompletedJobs)
		}
		return nil
	})
	s.request("jobs")
	h.stop(t)
	s.run()
	s.request("jobs")
	files["c.yaml"] = configMap("c", "1")
	r2 := s.push(files)
	s.awaitReady("jobs", r2)
	if n := runs(); n != 2 {
		t.Errorf("there were %d runs, want 2", n)
	}
	files["soon.yaml"] = shortJob("soon", 3, "2")
	r3 := s.push(files)
	s.awaitReady("jobs", r3)
	eventually(t, within, "the changed Job ran", func(context.Context) error {
		if n := runs(); n != 3 {
			return fmt.Errorf("there were %d runs", n)
		}
		return nil
	})
}

// TestC35DeletedByHand: a Job that was deleted before its time, complete as it was, is run again.
func TestC35DeletedByHand(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"job.yaml": shortJob("migrate", 3600, "1")})
	s.follow()
	s.deploy("jobs")
	s.awaitReady("jobs", r1)
	first := s.jobOf("migrate")
	uid := s.uid(first)
	if n := len(s.mustGet("jobs").Status.Rollout.CompletedJobs); n != 1 {
		t.Fatalf("%d are remembered", n)
	}
	if err := kube.Delete(t.Context(), first, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, s.jobOf("migrate"))
	s.request("jobs")
	eventually(t, within, "it is there again", func(ctx context.Context) error {
		again := s.jobOf("migrate")
		err := kube.Get(ctx, client.ObjectKeyFromObject(again), again)
		if err == nil && string(again.UID) == uid {
			err = errors.New("it is the first one")
		}
		if apierrors.IsNotFound(err) {
			err = errors.New("it is gone")
		}
		return err
	})
}

// TestC35FailedAndGone: a Job that failed, and went at once, fails its revision. Nothing is pruned for it, and a mended one ends that.
func TestC35FailedAndGone(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{"old.yaml": configMap("old", "1"), "kept.yaml": configMap("kept", "1")}
	r1 := s.push(files)
	s.follow()
	s.deploy("jobs", func(ks *v1.Kustomization) { ks.Spec.RetryInterval.Duration = time.Minute })
	s.awaitReady("jobs", r1)
	uid := s.uid(s.cm("old"))
	delete(files, "old.yaml")
	files["job.yaml"] = endingJob("migrate", "crash", 0, "1")
	r2 := s.push(files)
	s.awaitAttempt("jobs", r2)
	message := s.awaitCondition("jobs", "Ready", metav1.ConditionFalse, "HealthCheckFailed")
	if !strings.Contains(message, "migrate") {
		t.Errorf("the message names another object: %s", message)
	}
	s.sameUID(s.cm("old"), uid)
	files["job.yaml"] = shortJob("migrate", 0, "2")
	r3 := s.push(files)
	ks := s.awaitReady("jobs", r3)
	if n := len(ks.Status.Rollout.CompletedJobs); n != 1 {
		t.Errorf("%d are remembered", n)
	}
	eventuallyGone(t, within, s.cm("old"))
}

// jobsAccount is an account that may do with Jobs what an apply needs, and nothing else: it sees no events.
func (s *scenario) jobsAccount(name string) {
	s.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: uniqueName(name)},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"*"}}}}
	create(s.t, role, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: name}}})
	s.grant(name, s.namespace, "*")
}

// TestC35AccountWithoutEvents: a Job that is deleted at once after it ended is not run again by an account that may not list events.
func TestC35AccountWithoutEvents(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.jobsAccount("tenant")
	runs := s.countRuns()
	r1 := s.push(map[string]string{"job.yaml": shortJob("migrate", 0, "1")})
	s.follow()
	s.deploy("jobs", as("tenant"))
	s.awaitReady("jobs", r1)
	eventuallyGone(t, within, s.jobOf("migrate"))
	s.awaitRemembered("jobs")
	s.request("jobs")
	if n := runs(); n != 1 {
		t.Errorf("there were %d runs, want 1", n)
	}
}

// awaitRemembered waits until one Job is remembered, and returns what is.
func (s *scenario) awaitRemembered(name string) v1.CompletedJob {
	s.t.Helper()
	ks := s.await(name, "remembering a Job", func(ks *v1.Kustomization) error {
		if ks.Status.Rollout == nil || len(ks.Status.Rollout.CompletedJobs) != 1 {
			return errors.New("it does not")
		}
		return nil
	})
	return ks.Status.Rollout.CompletedJobs[0]
}

// TestC35BesideHealthChecks: a Job that completes long after its revision was healthy, which does not wait for it, is remembered, and
// not run again after it went.
func TestC35BesideHealthChecks(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	runs := s.countRuns()
	slow := strings.Replace(shortJob("migrate", 1, "1"), "  template:\n", "  template:\n    metadata: {annotations: {devcluster.holdfast.dev/exit-after: 10s}}\n", 1)
	r1 := s.push(map[string]string{"job.yaml": slow, "c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("jobs", func(ks *v1.Kustomization) {
		ks.Spec.Wait = false
		ks.Spec.HealthChecks = []fluxmeta.NamespacedObjectKindReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.namespace, Name: "c"}}
	})
	s.awaitReady("jobs", r1)
	s.awaitRemembered("jobs")
	eventuallyGone(t, within, s.jobOf("migrate"))
	s.request("jobs")
	if n := runs(); n != 1 {
		t.Errorf("there were %d runs, want 1", n)
	}
}

// TestC35NewNamespace: where the Namespace was made anew, as on another cluster, the Job has not run.
func TestC35NewNamespace(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	elsewhere := uniqueName("jobs")
	namespace := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}
	}
	create(t, namespace())
	t.Cleanup(func() { _ = kube.Delete(context.Background(), namespace()) })
	r1 := s.push(map[string]string{"job.yaml": strings.Replace(shortJob("migrate", 1, "1"), "name: migrate", "name: migrate, namespace: "+elsewhere, 1)})
	s.follow()
	s.deploy("jobs", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = elsewhere })
	s.awaitReady("jobs", r1)
	first := s.awaitRemembered("jobs").NamespaceUID
	if first == "" {
		t.Fatal("it is not said where it ran")
	}
	eventuallyGone(t, within, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "migrate"}})
	if err := kube.Delete(t.Context(), namespace()); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, namespace())
	create(t, namespace())
	s.request("jobs")
	s.await("jobs", "remembering the second run", func(ks *v1.Kustomization) error {
		jobs := ks.Status.Rollout.CompletedJobs
		if len(jobs) != 1 || jobs[0].NamespaceUID == first {
			return fmt.Errorf("it remembers %v", jobs)
		}
		return nil
	})
}
