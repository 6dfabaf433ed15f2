package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// spec.path: only what is below it is applied, and another path is a change like any other.
func TestPath(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"one/a.yaml": configMap("a", "1"), "two/b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("app", at("./one"))
	s.awaitReady("app", r1)
	s.stays(s.cm("a"))
	s.change("app", at("/two/"))
	s.awaitReady("app", r1)
	eventuallyGone(t, within, s.cm("a"))
	s.stays(s.cm("b"))
	if err := isGone(t.Context(), s.cm("c")); err != nil {
		t.Error(err)
	}
}

// spec.interval: what someone changed or deleted by hand is put right without a commit.
func TestIntervalCorrectsDrift(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("app", every(2*time.Second))
	s.awaitReady("app", r1)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"drift"}}`))
	if err := kube.Patch(t.Context(), s.cm("a"), patch); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), s.cm("b")); err != nil {
		t.Fatal(err)
	}
	eventually(t, within, "both are as in Git", func(ctx context.Context) error {
		for _, name := range []string{"a", "b"} {
			cm := s.cm(name)
			if err := kube.Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
				return err
			}
			if cm.Data["k"] != "1" {
				return fmt.Errorf("%s has %v", name, cm.Data)
			}
		}
		return nil
	})
	s.awaitEvent("app", "Normal", "Progressing", "ConfigMap/"+s.namespace+"/a configured")
	s.awaitEvent("app", "Normal", "Progressing", "ConfigMap/"+s.namespace+"/b created")
}

// spec.retryInterval, P145: what failed for a reason outside of Git is tried again long before the interval.
func TestRetryInterval(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"secrets": resource.MustParse("0")}},
	}
	create(t, quota)
	eventually(t, within, "the quota is in force", func(ctx context.Context) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "probe"}}
		if err := kube.Create(ctx, secret, client.DryRunAll); err == nil {
			return errors.New("a Secret is admitted")
		}
		return nil
	})
	r1 := s.push(map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {k: hunter2}\n"})
	s.follow()
	s.deploy("app", every(time.Hour), func(ks *v1.Kustomization) { ks.Spec.RetryInterval.Duration = time.Second })
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Secret/"+s.namespace+"/a", "exceeded quota")
	if err := kube.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	s.awaitReady("app", r1)
}

// P112: spec.timeout has a floor of 30 seconds, and what ran into it becomes Ready all the same when it recovers. (A timeout
// that passes is in C01.)
func TestTimeoutFloorAndRecovery(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"web.yaml": broken("web", "")})
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Timeout.Duration = time.Second })
	s.awaitMessage("web", "Healthy", metav1.ConditionFalse, "HealthCheckFailed", "Deployment/"+s.namespace+"/web status: 'Failed'")
	ks := s.mustGet("web")
	if deadline, wanted := ks.Status.Rollout.Deadline, ks.Status.Rollout.Running.At; deadline == nil || deadline.Sub(wanted.Time) < 29*time.Second {
		t.Errorf("applied at %v, deadline %v: want 30 seconds", wanted, deadline)
	}
	// The registry has the image now, so to say.
	r2 := s.push(map[string]string{"web.yaml": deployment("web", goodImage, "")})
	s.awaitReady("web", r2)
	if r1 == r2 {
		t.Error("there was no new revision")
	}
}

// C50 b, spec.prune: what leaves the source while it is off stays listed, and is not deleted unasked when it comes back.
func TestPruneOff(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.Prune = false })
	s.awaitCondition("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	r2 := s.push(map[string]string{"b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1")})
	s.awaitReady("app", r2)
	s.awaitRetained("app", s.cmID("a"), v1.RetainedPruneOff)
	s.stays(s.cm("a"))

	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Prune = true })
	s.awaitReady("app", r2)
	s.awaitRetained("app", s.cmID("a"), v1.RetainedAwaitingConfirmation)
	// What goes from now on is pruned; what went before is not, however often it is looked at.
	r3 := s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.awaitReady("app", r3)
	eventuallyGone(t, within, s.cm("b"))
	s.request("app")
	s.awaitRetained("app", s.cmID("a"), v1.RetainedAwaitingConfirmation)
	s.stays(s.cm("a"))
	// By hand it is gone for good.
	if err := kube.Delete(t.Context(), s.cm("a")); err != nil {
		t.Fatal(err)
	}
}

// spec.targetNamespace: another one moves the objects; those in the former namespace are pruned afterwards.
func TestTargetNamespace(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	other := newNamespace(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", r1)
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = other })
	s.awaitReady("app", r1)
	s.stays(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "a"}})
	eventuallyGone(t, within, s.cm("a"))
}

// spec.suspend: nothing is looked at while it is set, and resuming goes on at once.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app", every(time.Second))
	s.awaitReady("app", r1)
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	r2 := s.push(map[string]string{"b.yaml": configMap("b", "1")})
	ks := s.request("app")
	if ks.Status.LastAttemptedRevision != r1 || ks.Status.ObservedGeneration == ks.Generation {
		t.Errorf("a suspended Kustomization attempted %s, generation %d", ks.Status.LastAttemptedRevision, ks.Status.ObservedGeneration)
	}
	if err := conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue); err != nil {
		t.Errorf("suspending changed a condition: %v", err)
	}
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Suspend = false })
	s.awaitReady("app", r2)
	eventuallyGone(t, within, s.cm("a"))
}

// spec.dependsOn: not before the dependency is ready, and at the same revision of a common source. P125: Flux's words.
func TestDependsOn(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := func(image, value string) map[string]string {
		return map[string]string{"base/web.yaml": deployment("base", image, ""), "app/a.yaml": configMap("a", value)}
	}
	r1 := s.push(files(goodImage, "1"))
	s.follow()
	s.deploy("app", at("app"), func(ks *v1.Kustomization) { ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "base"}} })
	base := s.namespace + "/base"
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+base+"' not found: ")
	s.awaitEvent("app", "Normal", "DependencyNotReady", "Dependencies do not meet ready condition, retrying in 1s")
	s.deploy("base", at("base"))
	s.awaitReady("app", r1)

	r2 := s.push(files(missingImage, "2"))
	s.awaitAttempt("base", r2)
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+base+"' is not ready")
	a := s.cm("a")
	s.stays(a)
	if a.Data["k"] != "1" {
		t.Errorf("it was applied before its dependency was ready: %v", a.Data)
	}
	r3 := s.push(files(goodImage, "3"))
	s.awaitReady("app", r3)

	// A suspended dependency stays at the revision before.
	s.change("base", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	s.push(files(goodImage, "4"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+base+"'")
}

// spec.deletionPolicy, spec.prune: what happens to the objects when the Kustomization goes. P151, P167: the event that lists what was
// deleted has the reason that Ready had; P153: so has the one that lists what stays since somebody wanted that, and it is no warning.
func TestDeletionPolicies(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "kept.yaml": annotated("kept", "prune: disabled")})
	s.follow()
	tests := map[string]struct {
		policy  string
		prune   bool
		deleted bool
	}{
		"mirror":    {policy: fluxv1.DeletionPolicyMirrorPrune, prune: true, deleted: true},
		"mirroroff": {policy: fluxv1.DeletionPolicyMirrorPrune},
		"default":   {prune: true, deleted: true},
		"delete":    {policy: fluxv1.DeletionPolicyDelete, deleted: true},
		"wait":      {policy: fluxv1.DeletionPolicyWaitForTermination, deleted: true},
		"orphan":    {policy: fluxv1.DeletionPolicyOrphan, prune: true},
	}
	for name, test := range tests {
		s.deploy(name, func(ks *v1.Kustomization) {
			ks.Spec.DeletionPolicy, ks.Spec.Prune, ks.Spec.NamePrefix = test.policy, test.prune, name+"-"
		})
	}
	for name := range tests {
		ks := s.awaitReady(name, r1)
		if err := kube.Delete(t.Context(), ks); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range tests {
		ks := &v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		eventuallyGone(t, within, ks)
		s.stays(s.cm(name + "-kept"))
		if test.deleted {
			eventuallyGone(t, within, s.cm(name+"-a"))
			s.awaitEvent(name, "Normal", "ReconciliationSucceeded", "ConfigMap/"+s.namespace+"/"+name+"-a deleted")
			s.awaitEvent(name, "Normal", "ReconciliationSucceeded", "ConfigMap/"+s.namespace+"/"+name+"-kept", "PruneDisabled")
		} else {
			s.stays(s.cm(name + "-a"))
			s.awaitEvent(name, "Normal", "ReconciliationSucceeded", "are left on the cluster", "ConfigMap/"+s.namespace+"/"+name+"-a")
		}
	}
}

// WaitForTermination keeps the Kustomization until its objects are gone; the others leave it to the API server.
func TestDeletionWaitsForTermination(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	held := replaceOnce(configMap("a", "1"), "{name: a}", "{name: a, finalizers: [example.com/held]}")
	r1 := s.push(map[string]string{"a.yaml": held})
	s.follow()
	s.deploy("waits", func(ks *v1.Kustomization) {
		ks.Spec.DeletionPolicy, ks.Spec.NamePrefix = fluxv1.DeletionPolicyWaitForTermination, "waits-"
	})
	s.deploy("goes", func(ks *v1.Kustomization) { ks.Spec.NamePrefix = "goes-" })
	for _, ks := range []*v1.Kustomization{s.awaitReady("waits", r1), s.awaitReady("goes", r1)} {
		if err := kube.Delete(t.Context(), ks); err != nil {
			t.Fatal(err)
		}
	}
	eventuallyGone(t, within, &v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "goes"}})
	ks := s.awaitMessage("waits", "Reconciling", metav1.ConditionTrue, "Progressing", "Deletion in progress", "ConfigMap/"+s.namespace+"/waits-a", "Terminating")
	if got := retainedBecause(ks, s.cmID("waits-a")); got != v1.RetainedTerminating {
		t.Errorf("it is retained because of %q", got)
	}
	s.removeFinalizers(s.cm("waits-a"))
	eventuallyGone(t, within, ks)
	s.removeFinalizers(s.cm("goes-a"))
	eventuallyGone(t, within, s.cm("goes-a"))
}

// P154: a deletion that is refused keeps the Kustomization, with the reason, until it is accepted.
func TestDeletionIsRefused(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("app")
	ks := s.awaitReady("app", r1)
	allow := s.deny("DELETE", "configmaps", "oldObject.metadata.name != 'a'", "kept for the auditors")
	eventually(t, within, "the policy is in force", func(ctx context.Context) error {
		if err := kube.Delete(ctx, s.cm("a"), client.DryRunAll); err == nil {
			return errors.New("the deletion is accepted")
		}
		return nil
	})
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, s.cm("b"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "PruneFailed", "ConfigMap/"+s.namespace+"/a", "kept for the auditors")
	s.awaitEvent("app", "Warning", "PruneFailed", "pruning for deleted resource failed", "kept for the auditors")
	allow()
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("a"))
}

// reconcile.fluxcd.io/requestedAt: a pass at once, which is acknowledged, also when it fails.
func TestRequestedAt(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"good/a.yaml": configMap("a", "1"), "bad/a.yaml": "kind: ["})
	s.follow()
	s.deploy("good", at("good"))
	s.deploy("bad", at("bad"), func(ks *v1.Kustomization) { ks.Spec.RetryInterval.Duration = time.Hour })
	s.awaitReady("good", r1)
	s.awaitCondition("bad", "Ready", metav1.ConditionFalse, "BuildFailed")
	if err := kube.Delete(t.Context(), s.cm("a")); err != nil {
		t.Fatal(err)
	}
	ks := s.request("good")
	s.stays(s.cm("a"))
	if !meta.IsStatusConditionTrue(ks.Status.Conditions, "Ready") {
		t.Errorf("acknowledged before it was done: %v", messages(ks))
	}
	s.request("bad")
}

func annotated(name, control string) string {
	return replaceOnce(configMap(name, "1"), "{name: "+name+"}", "{name: "+name+", annotations: {kustomize.toolkit.fluxcd.io/"+control+"}}")
}
