package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

const suspendedCronJob = `apiVersion: batch/v1
kind: CronJob
metadata: {name: cron}
spec:
  schedule: "0 0 1 1 *"
  suspend: true
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: registry.example/web:1, envFrom: [{configMapRef: {name: cron}}]}]
`

const suspendedJob = `apiVersion: batch/v1
kind: Job
metadata: {name: idle}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: registry.example/web:1}]
`

// TestC15: a suspended CronJob, or Job, used to make the whole app look as if it never got ready. Here it is healthy at once; a Job that
// the CronJob made earlier pins the config of its time as long as it is not finished, and so does a suspended Job, which has no pod.
func TestC15(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := func(value string) map[string]string {
		return map[string]string{"cron.yaml": suspendedCronJob, "idle.yaml": suspendedJob,
			"kustomization.yaml": generated(value, []string{"cron", "later", "done"}, "cron.yaml", "idle.yaml")}
	}
	r1 := s.push(files("1"))
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	old := map[string]string{}
	for _, name := range []string{"cron", "later", "done"} {
		old[name] = s.generatedName(name, "1")
	}
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cron"}}
	s.uid(cron)
	made := s.job("made", goodImage, old["cron"])
	made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	later := s.job("later", goodImage, old["later"])
	later.Spec.Suspend = ptr.To(true)
	create(t, made, later, s.job("done", strings.Replace(goodImage, ":1", ":exit0", 1), old["done"]))
	s.awaitFinished("done")

	r2 := s.push(files("2"))
	s.awaitReady("app", r2)
	s.awaitUser("app", s.cmID(old["cron"]), "Job/"+s.namespace+"/made")
	s.awaitUser("app", s.cmID(old["later"]), "Job/"+s.namespace+"/later")
	eventuallyGone(t, within, s.cm(old["done"]))

	// Without a pod at this instant the Job still pins: it makes the next one.
	suspend := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))
	if err := kube.Patch(t.Context(), made, suspend); err != nil {
		t.Fatal(err)
	}
	s.await("app", "keeping config for a Job without pods", func(ks *v1.Kustomization) error {
		return usersAre(ks, s.cmID(old["cron"]), "Job/"+s.namespace+"/made")
	})
	s.request("app")
	s.stays(s.cm(old["cron"]), s.cm(old["later"]))
	for _, job := range []*batchv1.Job{made, later} {
		if err := kube.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
	}
	eventuallyGone(t, within, s.cm(old["cron"]))
	eventuallyGone(t, within, s.cm(old["later"]))
	s.awaitReady("app", r2)
}

// job is a Job whose pod runs on a ConfigMap.
func (s *scenario) job(name, image, config string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "main", Image: image, EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}}},
			}}},
		}}},
	}
}

// usersAre checks who keeps an object.
func usersAre(ks *v1.Kustomization, id string, want ...string) error {
	if ks.Status.Rollout == nil {
		return errors.New("there is no rollout status")
	}
	for _, r := range ks.Status.Rollout.Retained {
		if r.ID == id && !slices.Equal(r.Users, want) {
			return fmt.Errorf("the users are %v", r.Users)
		} else if r.ID == id {
			return nil
		}
	}
	return errors.New("it is not kept")
}
