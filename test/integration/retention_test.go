package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// InUse: whoever runs on a stale object keeps it, also users that no Kustomization owns, and also those that could only
// run later. It goes when the last of them does, without a commit.
func TestInUse(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	names := []string{"pod", "job", "cron", "paused", "done"}
	r1 := s.push(map[string]string{"kustomization.yaml": generated("1", names)})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	config := map[string]string{}
	for _, name := range names {
		config[name] = s.generatedName(name, "1")
	}
	users := s.createUsers(config)
	s.awaitRunning("pod")
	s.awaitFinished("done")

	r2 := s.push(map[string]string{"kustomization.yaml": generated("2", names)})
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm(config["done"]))
	for _, name := range names[:4] {
		kept := s.awaitRetained("app", s.cmID(config[name]), v1.RetainedInUse)
		want := map[string]string{"pod": "Pod", "job": "Job", "cron": "CronJob", "paused": "Deployment"}[name] + "/" + s.namespace + "/" + name
		if !slices.Contains(kept.Users, want) {
			t.Errorf("%s: the users are %v, want %s", name, kept.Users, want)
		}
	}
	s.awaitMessage("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", "Applied revision: "+r2, "4 InUse")

	// A pod that is on its way out still runs.
	if err := kube.Delete(t.Context(), users["pod"]); err != nil {
		t.Fatal(err)
	}
	s.request("app")
	pod := s.podOf("pod")
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatalf("the pod ended too soon for this test: %v", err)
	}
	s.stays(s.cm(config["pod"]))
	for _, name := range []string{"job", "cron", "paused"} {
		if err := kube.Delete(t.Context(), users[name], client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		eventuallyGone(t, within, s.cm(config[name]))
		s.awaitDropped("app", s.cmID(config[name]))
	}
	s.awaitMessage("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

// createUsers creates one user of each ConfigMap, by hand.
func (s *scenario) createUsers(config map[string]string) map[string]client.Object {
	s.t.Helper()
	spec := func(name, image string) corev1.PodSpec {
		return corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](40),
			Containers: []corev1.Container{{Name: "main", Image: image, EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config[name]}}},
			}}},
		}
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace, Name: name} }
	pod := &corev1.Pod{ObjectMeta: meta("pod"), Spec: spec("pod", goodImage)}
	pod.Annotations = map[string]string{"devcluster.holdfast.dev/stop-after": "30s"}
	// A suspended Job has no pod, but can make one.
	job := &batchv1.Job{ObjectMeta: meta("job"), Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: spec("job", goodImage)}}}
	done := &batchv1.Job{ObjectMeta: meta("done"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec("done", "registry.example/job:exit0")}}}
	cron := &batchv1.CronJob{ObjectMeta: meta("cron"), Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", Suspend: ptr.To(true),
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec("cron", goodImage)}}},
	}}
	labels := map[string]string{"app": "paused"}
	paused := &appsv1.Deployment{ObjectMeta: meta("paused"), Spec: appsv1.DeploymentSpec{
		Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec("paused", goodImage)},
	}}
	paused.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	create(s.t, pod, job, done, cron, paused)
	return map[string]client.Object{"pod": pod, "job": job, "done": done, "cron": cron, "paused": paused}
}

func (s *scenario) podOf(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

func (s *scenario) awaitRunning(pod string) {
	s.t.Helper()
	eventually(s.t, within, "pod "+pod+" runs", func(ctx context.Context) error {
		ready, err := s.readyPods(ctx)
		if _, ok := ready[pod]; err == nil && !ok {
			err = fmt.Errorf("ready are %v", keys(ready))
		}
		return err
	})
}

func (s *scenario) awaitFinished(job string) {
	s.t.Helper()
	eventually(s.t, within, "job "+job+" is finished", func(ctx context.Context) error {
		j := &batchv1.Job{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: job}, j); err != nil {
			return err
		}
		if j.Status.CompletionTime == nil {
			return fmt.Errorf("its status is %v", j.Status)
		}
		return nil
	})
}

// C50 a, PruneDisabled: the object itself says no, wherever that was written, until it no longer does (P101).
func TestPruneDisabled(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{
		"git.yaml": annotated("git", "prune: disabled"), "case.yaml": annotated("case", "prune: Disabled"),
		"ignored.yaml": annotated("ignored", "ssa: Ignore"), "live.yaml": configMap("live", "1"),
		"label.yaml": configMap("label", "1"), "rest.yaml": configMap("rest", "1"),
		"gone.yaml": configMap("gone", "1"),
	}
	// What is not applied has to be there already, with the labels that Flux once gave it.
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ignored",
		Annotations: map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "Ignore"},
		Labels:      map[string]string{v1.OwnerNameLabel: "app", v1.OwnerNamespaceLabel: s.namespace}}})
	r1 := s.push(files)
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	for name, patch := range map[string]string{
		"live":  `{"metadata":{"annotations":{"kustomize.toolkit.fluxcd.io/prune":"disabled"}}}`,
		"label": `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/reconcile":"disabled"}}}`,
	} {
		if err := kube.Patch(t.Context(), s.cm(name), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	r2 := s.push(map[string]string{"rest.yaml": configMap("rest", "1")})
	s.awaitReady("app", r2)
	named := "ConfigMap/" + s.namespace + "/"
	s.awaitEvent("app", "Normal", "Progressing", named+"gone deleted", named+"git skipped", named+"ignored skipped", named+"live skipped") // P104
	for _, name := range []string{"git", "case", "ignored", "live", "label"} {
		s.awaitRetained("app", s.cmID(name), v1.RetainedPruneDisabled)
		s.stays(s.cm(name))
	}
	s.awaitMessage("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", "5 PruneDisabled")
	lift := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"kustomize.toolkit.fluxcd.io/prune":null}}}`))
	if err := kube.Patch(t.Context(), s.cm("live"), lift); err != nil {
		t.Fatal(err)
	}
	s.request("app")
	eventuallyGone(t, within, s.cm("live"))
	s.awaitDropped("app", s.cmID("live"))
}

// Terminating: an accepted deletion stays in the inventory until the object is really gone.
func TestTerminating(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{
		"a.yaml": replaceOnce(configMap("a", "1"), "{name: a}", "{name: a, finalizers: [example.com/held]}"),
		"b.yaml": configMap("b", "1"),
	})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	r2 := s.push(map[string]string{"b.yaml": configMap("b", "1")})
	s.awaitReady("app", r2)
	kept := s.awaitRetained("app", s.cmID("a"), v1.RetainedTerminating)
	if !containsAll(kept.Message, []string{"example.com/held"}) {
		t.Errorf("the message is %q, want it to name the finalizer", kept.Message)
	}
	a := s.cm("a")
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil || a.DeletionTimestamp == nil {
		t.Fatalf("it is not being deleted: %v", err)
	}
	version := a.ResourceVersion
	s.request("app")
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil || a.ResourceVersion != version {
		t.Errorf("it was written to again: %v, resourceVersion %s, was %s", err, a.ResourceVersion, version)
	}
	s.removeFinalizers(a)
	s.awaitDropped("app", s.cmID("a"))
}

// An object that another owner took over leaves the inventory with an event, and stays on the cluster.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	for name, labels := range map[string]string{
		"a": `{"kustomize.toolkit.fluxcd.io/name":"other","kustomize.toolkit.fluxcd.io/namespace":"elsewhere"}`,
		"b": `{"kustomize.toolkit.fluxcd.io/name":null,"kustomize.toolkit.fluxcd.io/namespace":null}`,
	} {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":`+labels+`}}`))
		if err := kube.Patch(t.Context(), s.cm(name), patch); err != nil {
			t.Fatal(err)
		}
	}
	r2 := s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.awaitReady("app", r2)
	s.awaitDropped("app", s.cmID("a"))
	s.awaitDropped("app", s.cmID("b"))
	s.awaitEvent("app", "Normal", "Progressing", "ConfigMap/"+s.namespace+"/a", "Kustomization/elsewhere/other")
	s.awaitEvent("app", "Normal", "Progressing", "ConfigMap/"+s.namespace+"/b", "no Kustomization")
	s.stays(s.cm("a"), s.cm("b"))
}

// AwaitingHealth without wait: Ready is True as in Flux, and the health of the workloads is awaited in the background
// before anything is pruned. A push that changes only a README takes the verification over, with its deadline.
func TestAwaitingHealthInTheBackground(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", unwaited)
	s.awaitReady("web", r1)
	s.await("web", "healthy", phaseIs(v1.PhaseHealthy))
	first := s.onlyConfigMap("1")

	files := webApp("2", missingImage)
	r2 := s.push(files)
	s.awaitReady("web", r2)
	kept := s.awaitRetained("web", inventoryID(first), v1.RetainedAwaitingHealth)
	before := s.mustGet("web").Status.Rollout
	files["README.md"] = "Words."
	r3 := s.push(files)
	ks := s.awaitReady("web", r3)
	again := s.awaitRetained("web", inventoryID(first), v1.RetainedAwaitingHealth)
	if !again.Since.Equal(kept.Since) {
		t.Errorf("it is kept since %v, was %v", again.Since, kept.Since)
	}
	if now := ks.Status.Rollout; !now.Deadline.Equal(before.Deadline) || !now.Since.Equal(before.Since) {
		t.Errorf("the verification began at %v and ends at %v, was %v and %v", now.Since, now.Deadline, before.Since, before.Deadline)
	}
	for _, c := range ks.Status.Conditions {
		if c.Type == "Healthy" {
			t.Errorf("there is a condition Healthy, which nobody asked for: %v", c)
		}
	}
	s.stays(&first)
	s.push(webApp("3", goodImage))
	eventually(t, within, "only the third ConfigMap is left", func(ctx context.Context) error {
		return s.onlyConfigMapIs(ctx, "3")
	})
	s.await("web", "healthy", phaseIs(v1.PhaseHealthy))
}

// Without wait, a revision that fails in the background keeps all that it replaced, while Ready stays True.
func TestHeldInTheBackground(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"web.yaml": deployment("web", goodImage, ""), "old.yaml": configMap("old", "1")})
	s.follow()
	s.deploy("web", unwaited)
	s.awaitReady("web", r1)
	s.await("web", "healthy", phaseIs(v1.PhaseHealthy))
	r2 := s.push(map[string]string{"web.yaml": broken("web", "")})
	s.await("web", "held", phaseIs(v1.PhaseHeld))
	ks := s.awaitReady("web", r2)
	if got := retainedBecause(ks, s.cmID("old")); got != v1.RetainedAwaitingHealth {
		t.Errorf("it is retained because of %q", got)
	}
	// A push that changes nothing takes the verdict over.
	r3 := s.push(map[string]string{"web.yaml": broken("web", ""), "README.md": "Words."})
	again := s.awaitReady("web", r3)
	if err := phaseIs(v1.PhaseHeld)(again); err != nil || !again.Status.Rollout.Since.Equal(ks.Status.Rollout.Since) {
		t.Errorf("after a push of a README: since %v, was %v; %v", again.Status.Rollout.Since, ks.Status.Rollout.Since, err)
	}
	s.request("web")
	s.stays(s.cm("old"))
}

// pruneOrder AfterApply is Flux's order: neither health nor users keep anything.
func TestPruneAfterApply(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Rollout = &v1.RolloutPolicy{PruneOrder: v1.PruneAfterApply} })
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	s.push(webApp("2", missingImage))
	eventuallyGone(t, within, &first)
	s.await("web", "verifying", phaseIs(v1.PhaseVerifying))
}
