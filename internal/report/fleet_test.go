package report_test

import (
	"strings"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Two revisions of the source of all Kustomizations.
var (
	revision1 = "main@sha1:" + strings.Repeat("1", 40)
	revision2 = "main@sha1:" + strings.Repeat("2", 40)
)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

// fleet has a Kustomization in each state.
func fleet() []v1.Kustomization {
	return []v1.Kustomization{
		shop(),
		infra(),
		ks("plain", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied revision: "+revision2), phase(v1.PhaseHealthy)),
		ks("flux", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "written by another controller")),
		ks("held", ready(metav1.ConditionFalse, "HealthCheckFailed", "health check failed after 10m"), phase(v1.PhaseHeld),
			culprit("Job/team/migrate", "Failed", "Job has failed: BackoffLimitExceeded"), culprit("Deployment/team/api", "InProgress", "Available: 0/2")),
		ks("refused", ready(metav1.ConditionFalse, "BuildFailed", "kustomization.yaml: no such file\nlook at the path"), phase(v1.PhaseRefused)),
		ks("unsupported", ready(metav1.ConditionFalse, v1.ReasonFieldNotSupported, "spec.decryption: not supported"),
			stalled(v1.ReasonFieldNotSupported), phase(v1.PhaseHealthy)),
		ks("empty", ready(metav1.ConditionFalse, "AwaitingConfirmation", "0 objects built from ./empty, 3 in the inventory: nothing is deleted"),
			stalled("AwaitingConfirmation"), phase(v1.PhaseHealthy), kept("team_data__ConfigMap", v1.RetainedAwaitingConfirmation)),
		ks("search", ready(metav1.ConditionFalse, "DependencyNotReady", "dependency 'team/shop' is not ready"), phase(v1.PhaseWaiting), after("shop")),
		ks("checkout", ready(metav1.ConditionFalse, "DependencyNotReady", "dependency 'team/search' is not ready"), phase(v1.PhaseWaiting), after("search")),
		ks("paused", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy),
			func(k *v1.Kustomization) { k.Spec.Suspend = true }),
		ks("new"),
		ks("edited", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy),
			func(k *v1.Kustomization) { k.Generation = 2 }),
		ks("leaving", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"),
			func(k *v1.Kustomization) { k.DeletionTimestamp = ago(90 * time.Second) }),
	}
}

func shop() v1.Kustomization {
	return ks("shop", ready(metav1.ConditionUnknown, "Progressing", "Running health checks"), phase(v1.PhaseVerifying),
		culprit("Deployment/team/shop", "InProgress", "Updated: 1/3"),
		kept("team_shop-config-old__ConfigMap", v1.RetainedAwaitingHealth),
		owns("team_shop-config-old__ConfigMap", "team_shop-config-new__ConfigMap", "team_shop_apps_Deployment"),
		func(k *v1.Kustomization) {
			k.Status.LastAppliedRevision = revision1
			k.Status.Rollout.LastHealthy = &v1.RevisionDigest{Revision: revision1}
			k.Status.Rollout.Deadline = &metav1.Time{Time: now.Add(252 * time.Second)}
			k.Status.Rollout.Retained[0].Until = revision2 + " is healthy"
		})
}

func infra() v1.Kustomization {
	return ks("infra", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy),
		kept("team_infra-config-old__ConfigMap", v1.RetainedInUse), owns("team_infra-config-old__ConfigMap"),
		func(k *v1.Kustomization) {
			r := &k.Status.Rollout.Retained[0]
			r.Until, r.UserCount = "nothing that runs refers to it", 7
			r.Users = []string{"Pod/team/a", "Pod/team/b", "Pod/team/c", "Pod/team/d", "Pod/team/e"}
		})
}

// sources are a healthy source, which all follow, and one that fails.
func sources() []sourcev1.GitRepository {
	good := sourcev1.GitRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "app"}}
	good.Spec.URL = "https://git.example/app"
	good.Status.Artifact = &fluxmeta.Artifact{Revision: revision2}
	good.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, LastTransitionTime: *ago(time.Hour)}}
	bad := sourcev1.GitRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "broken"}}
	bad.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Message: "repository not found",
		LastTransitionTime: *ago(3 * 24 * time.Hour)}}
	return []sourcev1.GitRepository{good, bad}
}

// ks makes a Kustomization that was applied at the second revision.
func ks(name string, changes ...func(*v1.Kustomization)) v1.Kustomization {
	k := v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Generation: 1}}
	k.Spec.SourceRef = fluxv1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "app"}
	k.Spec.Interval.Duration = 10 * time.Minute
	for _, change := range changes {
		change(&k)
	}
	return k
}

func ready(status metav1.ConditionStatus, reason, message string) func(*v1.Kustomization) {
	return func(k *v1.Kustomization) {
		k.Status.ObservedGeneration = 1
		k.Status.LastAttemptedRevision = revision2
		if status == metav1.ConditionTrue {
			k.Status.LastAppliedRevision = revision2
		}
		k.Status.Conditions = append(k.Status.Conditions, metav1.Condition{
			Type: "Ready", Status: status, Reason: reason, Message: message, LastTransitionTime: *ago(2 * time.Hour)})
	}
}

func stalled(reason string) func(*v1.Kustomization) {
	return func(k *v1.Kustomization) {
		k.Status.Conditions = append(k.Status.Conditions, metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: reason})
	}
}

func phase(p v1.Phase) func(*v1.Kustomization) {
	return func(k *v1.Kustomization) {
		k.Status.Rollout = &v1.RolloutStatus{Phase: p, Since: ago(48 * time.Second), Wanted: &v1.RevisionDigest{Revision: revision2}}
	}
}

func culprit(id, reason, message string) func(*v1.Kustomization) {
	return func(k *v1.Kustomization) {
		k.Status.Rollout.Culprits = append(k.Status.Rollout.Culprits, v1.Culprit{ID: id, Reason: reason, Message: message})
	}
}

func kept(id string, reason v1.RetentionReason) func(*v1.Kustomization) {
	return func(k *v1.Kustomization) {
		r := k.Status.Rollout
		r.Retained = append(r.Retained, v1.RetainedObject{ID: id, Reason: reason, Since: ago(40 * time.Second)})
		r.RetainedCount++
	}
}

func owns(ids ...string) func(*v1.Kustomization) {
	return func(k *v1.Kustomization) {
		k.Status.Inventory = &fluxv1.ResourceInventory{}
		for _, id := range ids {
			k.Status.Inventory.Entries = append(k.Status.Inventory.Entries, fluxv1.ResourceRef{ID: id, Version: "v1"})
		}
	}
}

func after(name string) func(*v1.Kustomization) {
	return func(k *v1.Kustomization) {
		k.Spec.DependsOn = append(k.Spec.DependsOn, fluxv1.DependencyReference{Name: name})
	}
}

// labelled is the metadata of an object whose owner labels name a Kustomization.
func labelled(owner string) metav1.Object {
	m := &metav1.ObjectMeta{}
	if namespace, name, ok := strings.Cut(owner, "/"); ok {
		m.Labels = map[string]string{v1.OwnerNamespaceLabel: namespace, v1.OwnerNameLabel: name}
	}
	return m
}
