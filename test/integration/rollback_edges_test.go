package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	admissionapi "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/revision"
)

const grownClaim = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, labels: {size: %q}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// datedJob is a Job whose template can't change in place.
func datedJob(revision string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: migrate-%[1]s}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.example/migrate:exit0", args: [%[1]q]}]
`, revision)
}

// withEdges is a web app with what can't go back: a Job, a claim and an immutable ConfigMap.
func withEdges(value, image string) map[string]string {
	files := webApp(value, image)
	files["kustomization.yaml"] = strings.Replace(files["kustomization.yaml"], "[web.yaml]", "[web.yaml, job.yaml, fixed.yaml, claim.yaml]", 1)
	files["job.yaml"] = datedJob(value)
	files["fixed.yaml"] = configMap("fixed", "1") + "immutable: true\n"
	files["claim.yaml"] = fmt.Sprintf(grownClaim, value)
	return files
}

// TestRollbackLeavesWhatCantGoBack: Jobs are not run again, claims stay, and everything else comes back all the same. A retry tries
// the failed revision once more.
func TestRollbackLeavesWhatCantGoBack(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(withEdges("1", goodImage))
	s.follow()
	// Nothing binds the claim, so that health is that of the Deployment.
	s.deploy("web", rollsBack(20*time.Second), unwaited, healthOf("web"))
	s.awaitReady("web", r1)
	s.awaitStored("web", r1, 1)
	s.awaitFinished("migrate-1")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "migrate-1"}}
	if err := kube.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, job)

	r2 := s.push(withEdges("2", missingImage))
	ks := s.awaitMessage("web", "Ready", metav1.ConditionFalse, v1.ReasonRolledBack, r2, "left as it is", "PersistentVolumeClaim")
	if left := strings.Join(ks.Status.Rollout.LeftAsIs, " "); !strings.Contains(left, "PersistentVolumeClaim/"+s.namespace+"/data") {
		t.Errorf("left as they are: %s", left)
	}
	if err := isGone(t.Context(), job); err != nil {
		t.Errorf("the Job of the old revision was run again: %v", err)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "data"}, claim); err != nil || claim.Labels["size"] != "2" {
		t.Errorf("the claim was taken back: %v %v", claim.Labels, err)
	}

	number := ks.Status.Rollout.History[0].Number
	s.change("web", annotate(v1.AnnotationRetry, "once"))
	s.await("web", "tried once more and rolled back again", func(ks *v1.Kustomization) error {
		h := ks.Status.Rollout.History
		if len(h) < 2 || h[0].Number != number+2 || h[1].Trigger != v1.TriggerRetry || h[1].Result != v1.ResultRolledBack {
			return fmt.Errorf("the history is %+v", h)
		}
		return conditionIs(ks.Status.Conditions, "Stalled", metav1.ConditionTrue)
	})
}

// healthOf makes the verdict depend on one Deployment.
func healthOf(name string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) {
		ks.Spec.HealthChecks = append(ks.Spec.HealthChecks,
			fluxmeta.NamespacedObjectKindReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ks.Namespace, Name: name})
	}
}

// TestRollbackWithoutItsStore: what can't be read is not brought back. Everything is kept, and the message says so; a first
// revision has nothing to go back to.
func TestRollbackWithoutItsStore(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.push(webApp("0", missingImage))
	s.follow()
	s.deploy("web", rollsBack(15*time.Second))
	s.awaitMessage("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed", "health check failed")
	s.awaitCondition("web", v1.RollbackReadyCondition, metav1.ConditionFalse, "NothingHealthy")
	r1 := s.push(webApp("1", goodImage))
	s.awaitReady("web", r1)
	s.awaitStored("web", r1, 1)
	first := s.configMapOf("1")
	if err := kube.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(s.namespace), client.HasLabels{revision.OwnerLabel}); err != nil {
		t.Fatal(err)
	}
	s.push(webApp("2", missingImage))
	s.awaitMessage("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed", "not rolled back, since the stored revision is gone")
	s.awaitOldPods(2, first.Name)

	// A revert in Git works as ever: it is the same build as what was healthy.
	r3 := s.push(webApp("1", goodImage))
	s.awaitReady("web", r3)
	s.awaitOldPods(2, first.Name)
}

// TestRollbackKilled: kill -9 at the writes of a rollback ends in the same state, and no value of a Secret is told on the way.
func TestRollbackKilled(t *testing.T) {
	t.Parallel()
	k := &killing{scenario: newScenario(t)}
	k.gate = k.newGate()
	files := func(value, image string) map[string]string {
		files := webApp(value, image)
		files["kustomization.yaml"] += "secretGenerator:\n- name: token\n  literals: [password=hunter2-" + value + "]\n"
		return files
	}
	r1 := k.push(files("1", goodImage))
	k.follow()
	k.deploy("app", rollsBack(15*time.Second))
	h := startProcess(t, k.namespace, env.Kubeconfig)
	k.awaitReady("app", r1)
	k.awaitStored("app", r1, 1)
	h.kill()

	k.push(files("2", missingImage))
	status := func(want func(*v1.RolloutStatus) bool) func(*v1.Kustomization) bool {
		return func(ks *v1.Kustomization) bool { return ks.Status.Rollout != nil && want(ks.Status.Rollout) }
	}
	k.at("failed -> decided", isStatus(status(func(r *v1.RolloutStatus) bool { return r.Skipped != nil })))
	k.at("decided -> Record of the old revision", isStatus(status(func(r *v1.RolloutStatus) bool {
		return r.Skipped != nil && r.Wanted.Digest != r.Skipped.Digest
	})))
	k.at("Record -> apply", isWrite(admissionapi.Update, "deployments", "web"))
	k.at("applied -> status", isStatus(status(func(r *v1.RolloutStatus) bool {
		return r.Skipped != nil && r.Running != nil && r.Running.Digest != r.Skipped.Digest
	})))
	last := startProcess(t, k.namespace, env.Kubeconfig)
	ks := k.awaitMessage("app", "Ready", metav1.ConditionFalse, v1.ReasonRolledBack, "rolled back to "+r1)
	eventually(t, within, "only the config of the old revision is left", func(ctx context.Context) error { return k.onlyConfigMapIs(ctx, "1") })

	events, err := k.eventsOf(t.Context(), "app")
	log, readErr := os.ReadFile(last.log)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	if told := fmt.Sprint(ks.Status, events) + string(log); strings.Contains(told, "hunter2") {
		t.Error("a value of a Secret is told")
	}
}
