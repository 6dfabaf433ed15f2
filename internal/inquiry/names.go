package inquiry

import (
	"context"
	"slices"
)

// Names lists the names of the Kustomizations of a namespace.
func (q *Inquirer) Names(ctx context.Context, namespace string) ([]string, error) {
	all, err := q.kustomizations(ctx, namespace)
	names := make([]string, 0, len(all))
	for i := range all {
		names = append(names, all[i].Name)
	}
	slices.Sort(names)
	return names, err
}

// Namespaces lists the namespaces that have Kustomizations.
func (q *Inquirer) Namespaces(ctx context.Context) ([]string, error) {
	all, err := q.kustomizations(ctx, "")
	names := make([]string, 0, len(all))
	for i := range all {
		names = append(names, all[i].Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
