package report_test

import (
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// A tree with a Kustomization that is not there, one in a circle, and one on another cluster.
func TestTreeText(t *testing.T) {
	root := ks("root", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy), owns("team_shop_kustomize.toolkit.fluxcd.io_Kustomization",
		"team_lost_kustomize.toolkit.fluxcd.io_Kustomization", "team_far_kustomize.toolkit.fluxcd.io_Kustomization", "_team__Namespace"))
	within := shop()
	owns("team_root_kustomize.toolkit.fluxcd.io_Kustomization", "team_shop-config-old__ConfigMap", "team_shop_apps_Deployment")(&within)
	far := ks("far", ready(metav1.ConditionTrue, "ReconciliationSucceeded", "Applied"), phase(v1.PhaseHealthy), owns("team_a__ConfigMap", "team_b_kustomize.toolkit.fluxcd.io_Kustomization"),
		func(k *v1.Kustomization) { k.Spec.KubeConfig = &fluxmeta.KubeConfigReference{} })
	tree := report.TreeOf(&root, func(_, name string) (*v1.Kustomization, string) {
		switch name {
		case "root":
			return &root, ""
		case "shop":
			return &within, ""
		case "far":
			return &far, ""
		}
		return nil, "not on the cluster"
	})
	empty := ks("new")
	prints(t, map[string]text{"tree": tree, "tree_empty": report.TreeOf(&empty, nil)}, report.TextOptions{})
	printsJSON(t, "tree", tree)
}

func TestEventsText(t *testing.T) {
	about := func(group, kind, name string) corev1.ObjectReference {
		return corev1.ObjectReference{APIVersion: group + "/v1", Kind: kind, Namespace: "team", Name: name}
	}
	all := []corev1.Event{
		{InvolvedObject: about("kustomize.toolkit.fluxcd.io", "Kustomization", "shop"), Type: "Warning", Reason: "HealthCheckFailed",
			Message: "health check failed after 5m\nDeployment team/shop", Count: 3, FirstTimestamp: *ago(time30), LastTimestamp: *ago(time30 / 2)},
		{InvolvedObject: about("source.toolkit.fluxcd.io", "GitRepository", "app"), Type: "Normal", Reason: "NewArtifact", Message: "stored " + revision2,
			LastTimestamp: *ago(2 * time30), ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"source.toolkit.fluxcd.io/revision": revision2}}},
		{InvolvedObject: about("apps", "Deployment", "shop"), Type: "Normal", Reason: "Scaled", LastTimestamp: *ago(0)},
		{InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod"}, Type: "Normal", LastTimestamp: *ago(0)},
		{InvolvedObject: about("kustomize.toolkit.fluxcd.io", "Kustomization", "infra"), Type: "Normal", Reason: "Pruned", Message: "ConfigMap/team/old pruned",
			EventTime: metav1.NewMicroTime(ago(time30 / 3).Time)},
	}
	list := report.EventsOf(all, report.EventFilter{})
	some := report.EventsOf(all, report.EventFilter{Warnings: true, Objects: []string{"Kustomization/team/shop"}})
	none := report.EventsOf(all, report.EventFilter{Warnings: true, Objects: []string{"Kustomization/team/infra"}})
	none.About = "Kustomization team/infra or its source"
	prints(t, map[string]text{"events": list, "events_some": some, "events_none": none, "events_nowhere": report.EventsOf(nil, report.EventFilter{})}, report.TextOptions{Namespaces: true})
	prints(t, map[string]text{"events_wide": list}, report.TextOptions{Wide: true, NoHeaders: true})
	printsJSON(t, "events", list)

	told := map[report.Event]bool{}
	if first, again := list.Since(told), list.Since(told); len(first.Events) != 3 || len(again.Events) != 0 {
		t.Errorf("told %d events, then %d, want 3 and none", len(first.Events), len(again.Events))
	}
}

const time30 = 30 * 60 * 1e9
