package inquiry

import (
	"context"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// Tree reads a Kustomization and those in its inventory. One of them that can't be read is marked, and does not end the answer.
func (q *Inquirer) Tree(ctx context.Context, namespace, name string) (report.Tree, error) {
	root, err := q.kustomization(ctx, namespace, name)
	if err != nil {
		return report.Tree{}, err
	}
	tree := report.TreeOf(root, func(namespace, name string) (*v1.Kustomization, string) {
		ks, err := q.kustomization(ctx, namespace, name)
		switch {
		case err == nil:
			return ks, ""
		case IsNotFound(err):
			return nil, "not on the cluster"
		}
		return nil, lacking("get kustomizations"+in(namespace), err, "what it has is not shown")
	})
	return tree, ctx.Err()
}
