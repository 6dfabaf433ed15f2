package inquiry

import (
	"context"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// whyKustomization reads a Kustomization, its source, its neighbours, and the pods of what fails.
func (q *Inquirer) whyKustomization(ctx context.Context, namespace, name string) (Answer, error) {
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	seen := report.SeenKustomization{Kustomization: ks}
	all, err := q.kustomizations(ctx, "")
	if err != nil {
		seen.Missing = append(seen.Missing, lacking("list kustomizations in all namespaces", err, "who waits for this one, and for whom it waits, is not shown"))
	}
	for i := range all {
		if client.ObjectKeyFromObject(&all[i]) != client.ObjectKeyFromObject(ks) {
			seen.Others = append(seen.Others, all[i])
		}
	}
	sources, missing := q.followed(ctx, []v1.Kustomization{*ks}, nil)
	seen.Sources = report.StatusOf(nil, sources, nil).Sources
	seen.Missing = append(seen.Missing, missing...)
	if _, isGit := sourceOf(ks); isGit && len(sources) == 0 && len(missing) == 0 {
		seen.SourceAbsent = true
	}
	q.lookForAbsent(ctx, &seen)
	if isRefused(ks) {
		q.lookAtWorkloads(ctx, &seen)
	} else {
		q.lookAtCulprits(ctx, &seen)
	}
	return report.KustomizationAnswerOf(seen), nil
}

// lookAtCulprits reads the pods of the workloads that are not healthy.
func (q *Inquirer) lookAtCulprits(ctx context.Context, seen *report.SeenKustomization) {
	rollout := seen.Kustomization.Status.Rollout
	if rollout == nil {
		return
	}
	seen.Pods = map[string][]report.PodTrouble{}
	for _, c := range rollout.Culprits {
		kind, rest, _ := strings.Cut(c.ID, "/")
		namespace, name, _ := strings.Cut(rest, "/")
		w, err := q.workload(ctx, kind, client.ObjectKey{Namespace: namespace, Name: name})
		if err != nil {
			seen.Missing = append(seen.Missing, lacking("read the pods of "+c.ID, err, "why they fail is not shown"))
			continue
		}
		if w == nil {
			continue
		}
		seen.Pods[c.ID] = report.TroublesOf(w.pods)
		if kind != "Job" && kind != "Pod" {
			seen.Safe = append(seen.Safe, report.Safe{Workload: c.ID, ReadyOldPods: w.readyOld(), ReadyPods: w.ready(), Wanted: w.wanted})
		}
	}
}
