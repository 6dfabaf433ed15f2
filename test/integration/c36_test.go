package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC36UnboundClaim: a claim whose class waits for the first pod used to be waited for until the timeout, though nothing would bind
// it. Alone it is ready; with a pod that asks for it, and can't start without it, it is in progress.
func TestC36UnboundClaim(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: uniqueName("late")}, Provisioner: "example.com/nobody",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	create(t, class)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := kube.Delete(context.Background(), class); err != nil {
			t.Errorf("delete the StorageClass: %v", err)
		}
	})
	files := map[string]string{"claim.yaml": fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: %s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`, class.Name)}
	r1 := s.push(files)
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	if claim := (&corev1.PersistentVolumeClaim{ObjectMeta: s.cm("data").ObjectMeta}); s.uid(claim) == "" || claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("the claim is %s", claim.Status.Phase)
	}

	files["web.yaml"] = strings.Replace(deployment("web", goodImage, "\n        volumeMounts: [{name: data, mountPath: /data}]"),
		"      containers:", "      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n      containers:", 1)
	s.push(files)
	s.await("app", "waiting for the claim", func(ks *v1.Kustomization) error {
		for _, c := range ks.Status.Rollout.Culprits {
			if c.ID == "PersistentVolumeClaim/"+s.namespace+"/data" {
				return nil
			}
		}
		return fmt.Errorf("it waits for %v", ks.Status.Rollout.Culprits)
	})
	if err := conditionIs(s.mustGet("app").Status.Conditions, "Ready", metav1.ConditionUnknown); err != nil {
		t.Error(err)
	}
}

// TestC36PausedAndScaledDown: a paused Deployment, or one without replicas, used to be waited for until the timeout. The paused one is ready,
// and what its old pods run on stays; once it has no replicas, and no pod is left, that goes.
func TestC36PausedAndScaledDown(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := webApp("1", goodImage)
	r1 := s.push(files)
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	first := s.generatedName("app", "1")

	paused := webApp("2", goodImage)
	paused["web.yaml"] = strings.Replace(paused["web.yaml"], "  replicas: 2", "  paused: true\n  replicas: 2", 1)
	r2 := s.push(paused)
	s.awaitReady("app", r2)
	s.awaitRetained("app", s.cmID(first), v1.RetainedInUse)
	s.request("app")
	s.stays(s.cm(first))

	down := webApp("2", goodImage)
	down["web.yaml"] = strings.Replace(down["web.yaml"], "  replicas: 2", "  replicas: 0", 1)
	r3 := s.push(down)
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.cm(first))
}
