package inquiry

import (
	"context"
	"slices"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// Status reads the Kustomizations of a namespace, or of all when it is empty, and the sources there and those that they
// follow elsewhere.
func (q *Inquirer) Status(ctx context.Context, namespace string) (report.Status, error) {
	all, err := q.kustomizations(ctx, namespace)
	if err != nil {
		return report.Status{}, err
	}
	sources, missing := q.sources(ctx, namespace, all)
	status := report.StatusOf(all, sources, missing)
	status.Where = report.Where(namespace)
	return status, nil
}

// StatusOf reads one Kustomization and its source.
func (q *Inquirer) StatusOf(ctx context.Context, namespace, name string) (report.Status, error) {
	ks, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.Status{}, err
	}
	all := []v1.Kustomization{*ks}
	sources, missing := q.followed(ctx, all, nil)
	return report.StatusOf(all, sources, missing), nil
}

// sources lists the sources of a namespace and reads those that Kustomizations follow elsewhere.
func (q *Inquirer) sources(ctx context.Context, namespace string, all []v1.Kustomization) ([]sourcev1.GitRepository, []string) {
	list := &sourcev1.GitRepositoryList{}
	if err := q.reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		if !apierrors.IsForbidden(err) {
			return nil, []string{lacking("list gitrepositories"+in(namespace), err, "sources are not shown")}
		}
		// Single ones may be readable.
		sources, missing := q.followed(ctx, all, nil)
		if len(missing) == 0 && len(sources) > 0 {
			return sources, nil
		}
		return sources, []string{lacking("list gitrepositories"+in(namespace), err, "sources are not shown")}
	}
	elsewhere, missing := q.followed(ctx, all, list.Items)
	return append(list.Items, elsewhere...), missing
}

// followed reads the sources that Kustomizations follow and that are not among those known.
func (q *Inquirer) followed(ctx context.Context, all []v1.Kustomization, known []sourcev1.GitRepository) ([]sourcev1.GitRepository, []string) {
	seen := map[client.ObjectKey]bool{}
	for i := range known {
		seen[client.ObjectKeyFromObject(&known[i])] = true
	}
	var found []sourcev1.GitRepository
	var missing []string
	for i := range all {
		key, ok := sourceOf(&all[i])
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		source, lack := q.gitRepository(ctx, key)
		if source != nil {
			found = append(found, *source)
		}
		if lack != "" {
			missing = append(missing, lack)
		}
	}
	slices.Sort(missing)
	return found, slices.Compact(missing)
}

// sourceOf is the GitRepository that a Kustomization follows.
func sourceOf(ks *v1.Kustomization) (client.ObjectKey, bool) {
	ref := ks.Spec.SourceRef
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = ks.Namespace
	}
	return key, ref.Kind == sourcev1.GitRepositoryKind
}
