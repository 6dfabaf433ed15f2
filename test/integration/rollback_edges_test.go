package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	admissionapi "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
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

// TestUndoWhileStuck: `kubectl rollout undo` during a stuck revision finds the config of the old one.
func TestUndoWhileStuck(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", unwaited, healthOf("web"))
	s.awaitReady("web", r1)
	first := s.configMapOf("1")
	r2 := s.push(webApp("2", missingImage))
	s.awaitAttempt("web", r2)
	eventually(t, within, "the new pods are stuck", func(ctx context.Context) error {
		d, err := s.getDeployment(ctx, "web")
		if err == nil && d.Status.UpdatedReplicas == 0 {
			err = errors.New("there are none")
		}
		return err
	})
	s.undoTo("web", first.Name)
	eventually(t, within, "the Deployment is whole on the old config", func(ctx context.Context) error {
		d, err := s.getDeployment(ctx, "web")
		switch {
		case err != nil:
			return err
		case d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 2 || d.Status.ReadyReplicas != 2 || d.Status.Replicas != 2:
			return fmt.Errorf("%+v", d.Status)
		}
		return nil
	})
	s.awaitOldPods(2, first.Name)
}

// undoTo puts the template that uses a ConfigMap back, as `kubectl rollout undo` does.
func (s *scenario) undoTo(name, config string) {
	s.t.Helper()
	list := &appsv1.ReplicaSetList{}
	if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace), client.MatchingLabels{"app": name}); err != nil {
		s.t.Fatal(err)
	}
	for _, set := range list.Items {
		if !usesConfig(corev1.Pod{Spec: set.Spec.Template.Spec}, config) {
			continue
		}
		delete(set.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template", "value": set.Spec.Template}})
		if err != nil {
			s.t.Fatal(err)
		}
		if err := kube.Patch(s.t.Context(), s.deploymentOf(name), client.RawPatch(types.JSONPatchType, patch)); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Fatalf("no ReplicaSet uses %s", config)
}

// TestRollbackCommands: what the command line says about revisions, and that no value of a Secret is in it.
func TestRollbackCommands(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := func(value string) map[string]string {
		files := webApp(value, goodImage)
		files["kustomization.yaml"] += "secretGenerator:\n- name: token\n  literals: [password=hunter2-" + value + "]\n"
		return files
	}
	r1 := s.push(files("1"))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Rollout = &v1.RolloutPolicy{KeepRevisions: new(int32(3))} })
	s.awaitReady("web", r1)
	s.awaitStored("web", r1, 1)
	r2 := s.push(files("2"))
	s.awaitStored("web", r2, 2)

	diff := s.holdfast(0, "diff", "web", "1", "2")
	says(t, diff, "> ConfigMap "+s.namespace+"/app-", `data.k: "1" -> "2"`, "> Secret "+s.namespace+"/token-", "data.password: (changed)")
	plan := s.holdfast(0, "rollback", "web", "--plan")
	says(t, plan, "back to "+report.Short(r1), "data.password: (changed)")
	says(t, s.holdfast(64, "rollback", "web"), "--yes")
	says(t, s.holdfast(2, "rollback", "web", "--to", "ffffff", "-y"), "no revision ffffff")
	says(t, s.holdfast(0, "rollback", "web", "-y", "--wait", "--reason", "INC-9"), "Asked for")
	s.awaitReady("web", r1)
	history := s.holdfast(0, "history", "web")
	says(t, history, "pin", "INC-9", "Pinned to "+report.Short(r1), "holdfast release web")
	says(t, s.holdfast(0, "status"), "Pinned", "INC-9")
	says(t, s.holdfast(0, "release", "web", "--wait"), "asked to take the revision of the source again")
	s.awaitReady("web", r2)
	says(t, s.holdfast(2, "release", "web"), "neither pinned nor rolled back")
	for _, out := range []string{diff, plan, history, s.holdfast(0, "diff", "web", "1", "2", "-o", "json"), s.holdfast(0, "rollback", "web", "--plan", "-o", "yaml")} {
		if strings.Contains(out, "hunter2") || strings.Contains(out, "aHVudGVyMi") {
			t.Errorf("a value of a Secret is shown:\n%s", out)
		}
	}
}

// holdfast runs a command in the scenario's namespace, without a terminal, and returns what it says. It has to end with a code.
func (s *scenario) holdfast(code int, args ...string) string {
	s.t.Helper()
	path, err := program()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), path, append(args, "-n", s.namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("holdfast %s ends with %d, want %d: %v\n%s", strings.Join(args, " "), got, code, err, out)
	}
	return string(out)
}
