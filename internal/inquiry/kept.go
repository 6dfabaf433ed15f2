package inquiry

import (
	"context"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// Kept reads what the Kustomizations of a namespace keep, or those of all when it is empty; with a name, what that one keeps.
func (q *Inquirer) Kept(ctx context.Context, namespace, name string, reason v1.RetentionReason) (report.KeptList, error) {
	if name == "" {
		all, err := q.kustomizations(ctx, namespace)
		list := report.KeptOf(all, reason)
		list.Where = report.Where(namespace)
		return list, err
	}
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.KeptList{}, err
	}
	list := report.KeptOf([]v1.Kustomization{*ks}, reason)
	list.Name = namespace + "/" + name
	return list, nil
}

// Confirmation reads the deletion of a Kustomization that waits for a person.
func (q *Inquirer) Confirmation(ctx context.Context, namespace, name string) (report.Confirmation, error) {
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.Confirmation{}, err
	}
	return report.ConfirmationOf(ks), nil
}

// Release reads what a Kustomization keeps that a person may let go of.
func (q *Inquirer) Release(ctx context.Context, namespace, name string) (report.Release, error) {
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.Release{}, err
	}
	return report.ReleaseOf(ks), nil
}
