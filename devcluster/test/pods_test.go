package test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const prefix = "devcluster.holdfast.dev/"

// TestPods shares one cluster, since none of its pods minds the others.
func TestPods(t *testing.T) {
	c := start(t, t.TempDir())
	kube := c.kube()
	for name, test := range map[string]func(*testing.T, kubernetes.Interface){
		"missing ConfigMap": testMissingConfigMap,
		"missing image":     testMissingImage,
		"crash":             testCrash,
		"job":               testJob,
		"unready":           testUnready,
		"ready after":       testReadyAfter,
		"exit after":        testExitAfter,
		"stop after":        testStopAfter,
		"volumes":           testVolumes,
		"namespace":         testNamespaceEnds,
	} {
		t.Run(name, func(t *testing.T) { test(t, kube) })
	}
	t.Run("kubectl", func(t *testing.T) { testKubectl(t, c) })
}

func testMissingConfigMap(t *testing.T, kube kubernetes.Interface) {
	pod := newPod("no-configmap", "app:v1", nil)
	pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{
		LocalObjectReference: v1.LocalObjectReference{Name: "app-g5b2m5gtd8"},
	}}}
	create(t, kube, pod)
	awaitWaiting(t, kube, pod.Name, "CreateContainerConfigError", `configmap "app-g5b2m5gtd8" not found`)
	if isReady(get(t, kube, pod.Name)) {
		t.Error("a pod that could not start is ready")
	}
}

func testMissingImage(t *testing.T, kube kubernetes.Interface) {
	create(t, kube, newPod("no-image", "registry.example:5000/app:missing", nil))
	awaitWaiting(t, kube, "no-image", "ImagePullBackOff", "app:missing")
}

func testCrash(t *testing.T, kube kubernetes.Interface) {
	create(t, kube, newPod("crash", "app:crash", nil))
	awaitWaiting(t, kube, "crash", "CrashLoopBackOff", "back-off")
}

func testJob(t *testing.T, kube kubernetes.Interface) {
	ctx := context.Background()
	pod := newPod("", "app:exit0", map[string]string{prefix + "exit-after": "1s"})
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec:       batchv1.JobSpec{Template: v1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}},
	}
	if _, err := kube.BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job is complete", func() (bool, string) {
		got, err := kube.BatchV1().Jobs("default").Get(ctx, "job", metav1.GetOptions{})
		return err == nil && got.Status.Succeeded == 1, fmt.Sprint(got.Status, err)
	})
}

func testUnready(t *testing.T, kube kubernetes.Interface) {
	create(t, kube, newPod("unready", "app:v1", map[string]string{prefix + "unready": "true"}))
	awaitPod(t, kube, "unready", "it runs", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	if isReady(get(t, kube, "unready")) {
		t.Error("it is ready in spite of the annotation")
	}
	annotate(t, kube, "unready", `null`)
	awaitPod(t, kube, "unready", "it is ready without the annotation", isReady)
	annotate(t, kube, "unready", `"true"`)
	awaitPod(t, kube, "unready", "it is unready again", func(p *v1.Pod) bool { return !isReady(p) })
}

func testReadyAfter(t *testing.T, kube kubernetes.Interface) {
	create(t, kube, newPod("later", "app:v1", map[string]string{prefix + "ready-after": "3s"}))
	awaitPod(t, kube, "later", "it is ready", isReady)
	pod := get(t, kube, "later")
	started := pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time
	for _, condition := range pod.Status.Conditions {
		// Times in the API are cut to seconds.
		if took := condition.LastTransitionTime.Sub(started); condition.Type == v1.PodReady && (took < 2*time.Second || took > 20*time.Second) {
			t.Errorf("ready %s after the start, want about 3s", took)
		}
	}
}

func testExitAfter(t *testing.T, kube kubernetes.Interface) {
	pod := newPod("exits", "app:v1", map[string]string{prefix + "exit-after": "1s", prefix + "exit-code": "7"})
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	create(t, kube, pod)
	awaitPod(t, kube, "exits", "it has failed", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodFailed })
	if got := get(t, kube, "exits").Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 7 {
		t.Errorf("terminated: %v, want exit code 7", got)
	}
}

func testStopAfter(t *testing.T, kube kubernetes.Interface) {
	ctx := context.Background()
	create(t, kube, newPod("slow", "app:v1", map[string]string{prefix + "stop-after": "3s"}))
	awaitPod(t, kube, "slow", "it is ready", isReady)
	begin := time.Now()
	if err := kube.CoreV1().Pods("default").Delete(ctx, "slow", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitDeleted(t, kube, "slow")
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("gone after %s, want 3s or more", took)
	}
}

func testVolumes(t *testing.T, kube kubernetes.Interface) {
	pod := newPod("volumes", "app:v1", nil)
	pod.Spec.InitContainers = []v1.Container{{Name: "init", Image: "app:v1"}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "empty", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: "kube-root-ca.crt"},
		}}},
	}
	for _, volume := range pod.Spec.Volumes {
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: volume.Name, MountPath: "/" + volume.Name})
	}
	create(t, kube, pod)
	awaitPod(t, kube, "volumes", "it is ready", isReady)
	if err := kube.CoreV1().Pods("default").Delete(context.Background(), "volumes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitDeleted(t, kube, "volumes")
}

func testNamespaceEnds(t *testing.T, kube kubernetes.Interface) {
	ctx := context.Background()
	if _, err := kube.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod can be created in the namespace", func() (bool, string) {
		_, err := kube.CoreV1().Pods("ends").Create(ctx, newPod("pod", "app:v1", nil), metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	if err := kube.CoreV1().Namespaces().Delete(ctx, "ends", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func() (bool, string) {
		_, err := kube.CoreV1().Namespaces().Get(ctx, "ends", metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

func testKubectl(t *testing.T, c *cluster) {
	cmd := exec.Command(program, "kubectl", "version")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Server Version: v1.") {
		t.Errorf("kubectl version: %v\n%s", err, out)
	}
}

func newPod(name, image string, annotations map[string]string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: image}}},
	}
}

func create(t *testing.T, kube kubernetes.Interface, pod *v1.Pod) {
	t.Helper()
	if _, err := kube.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, kube kubernetes.Interface, name string) *v1.Pod {
	t.Helper()
	pod, err := kube.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func annotate(t *testing.T, kube kubernetes.Interface, name, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, prefix+"unready", value)
	if _, err := kube.CoreV1().Pods("default").Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitPod(t *testing.T, kube kubernetes.Interface, name, what string, holds func(*v1.Pod) bool) {
	t.Helper()
	eventually(t, what, func() (bool, string) {
		pod := get(t, kube, name)
		return holds(pod), fmt.Sprint(pod.Status.Phase, pod.Status.ContainerStatuses)
	})
}

func awaitWaiting(t *testing.T, kube kubernetes.Interface, name, reason, message string) {
	t.Helper()
	awaitPod(t, kube, name, "it waits with "+reason, func(p *v1.Pod) bool {
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && w.Reason == reason && strings.Contains(w.Message, message) {
				return true
			}
		}
		return false
	})
}

func awaitDeleted(t *testing.T, kube kubernetes.Interface, name string) {
	t.Helper()
	eventually(t, "the pod is gone", func() (bool, string) {
		_, err := kube.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

func isReady(pod *v1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}
