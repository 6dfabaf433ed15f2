package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// listPage is the number of objects asked for at a time.
const listPage = 500

// Users finds who refers to each of the objects. All kinds of users are listed, once per namespace, and only in the
// namespaces of objects that can be in use at all; for cluster-scoped ones in all namespaces. With history it finds the
// revisions that refer to them, too, and from which nothing runs.
func (o *Observer) Users(ctx context.Context, ids []object.ID, history bool) map[object.ID]plan.Use {
	uses := make(map[object.ID]plan.Use, len(ids))
	byNamespace := map[string]object.Set{}
	for _, id := range ids {
		switch {
		case plan.IsDefinition(id):
			uses[id] = o.customResources(ctx, id)
		case plan.IsNamespace(id):
			uses[id] = o.namespaceContents(ctx, id.Name)
		case !usage.CanBeUsed(id):
			uses[id] = plan.Use{Known: true}
		default:
			if byNamespace[id.Namespace] == nil {
				byNamespace[id.Namespace] = object.Set{}
			}
			byNamespace[id.Namespace][id] = struct{}{}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		o.usersIn(ctx, namespace, byNamespace[namespace], history, uses)
	}
	return uses
}

// usersIn fills in the uses of the targets, which are all of one namespace, or cluster-scoped when it is empty.
func (o *Observer) usersIn(ctx context.Context, namespace string, targets object.Set, history bool, uses map[object.ID]plan.Use) {
	live, err := o.live(ctx, namespace)
	if err != nil {
		for id := range targets {
			uses[id] = plan.Use{Why: err.Error()}
		}
		return
	}
	found, err := usage.Find(targets, live)
	var past map[object.ID][]usage.User
	if history {
		var unread error
		past, unread = usage.History(targets, live)
		err = errors.Join(err, unread)
	}
	for id := range targets {
		users, revisions := usage.Summary(found[id]), usage.Summary(past[id])
		switch {
		case len(users) > 0 || len(revisions) > 0 || err == nil:
			uses[id] = plan.Use{Known: true, Users: users, Past: revisions}
		default:
			uses[id] = plan.Use{Why: err.Error()}
		}
	}
}

// live lists everything that can be a user.
func (o *Observer) live(ctx context.Context, namespace string) (usage.Live, error) {
	var live usage.Live
	for _, gvk := range usage.UserKinds {
		items, err := o.list(ctx, gvk, namespace)
		if err != nil {
			return nil, fmt.Errorf("list %s%s: %w", strings.ToLower(gvk.Kind)+"s", inNamespace(namespace), err)
		}
		live = append(live, items...)
	}
	return live, nil
}

func (o *Observer) list(ctx context.Context, gvk schema.GroupVersionKind, namespace string) (usage.Live, error) {
	var all usage.Live
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	for {
		opts := &client.ListOptions{Namespace: namespace, Limit: listPage, Continue: list.GetContinue()}
		if err := o.Reader.List(ctx, list, opts); err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, list.Items[i].DeepCopy())
		}
		if list.GetContinue() == "" {
			return all, nil
		}
	}
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + namespace
}
