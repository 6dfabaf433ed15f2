package report_test

import (
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/report"
)

func TestUninstallText(t *testing.T) {
	plan := report.Uninstall{Namespace: "flux-system", Deletes: []string{"Deployment/flux-system/holdfast", "ClusterRole/holdfast-view-flux-system"},
		Left: []string{"ServiceAccount/flux-system/holdfast"}, Kustomizations: 7, Deleting: []string{"team/leaving"}, InGit: "flux-system/flux-system"}
	done := plan
	done.Done, done.Left, done.Deleting, done.InGit, done.Kustomizations = true, nil, nil, "", 0
	prints(t, map[string]text{"uninstall_plan": plan, "uninstall_done": done,
		"uninstall_nothing": report.Uninstall{Namespace: "flux-system", Kustomizations: 1}}, report.TextOptions{})
	printsJSON(t, "uninstall", plan)
}
