package usage

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// The kinds of role-based access control. Source: rbac/v1.
const rbac = "rbac.authorization.k8s.io"

var (
	role               = kind{group: rbac, name: "Role"}
	roleBinding        = kind{group: rbac, name: "RoleBinding"}
	clusterRole        = kind{group: rbac, name: "ClusterRole", cluster: true}
	clusterRoleBinding = kind{group: rbac, name: "ClusterRoleBinding", cluster: true}
)

// isBinding tells the kinds that grant a role to service accounts.
func isBinding(gk schema.GroupKind) bool {
	return gk.Group == rbac && (gk.Kind == roleBinding.name || gk.Kind == clusterRoleBinding.name)
}

// collectRole adds the role that a binding grants.
func collectRole(u *unstructured.Unstructured, add func(object.ID)) error {
	if !isBinding(u.GroupVersionKind().GroupKind()) {
		return nil
	}
	return path{"roleRef"}.maps(u.Object, func(ref map[string]any) error {
		text, err := texts(ref, "kind", "name")
		if err != nil || text["name"] == "" {
			return err
		}
		for _, k := range []kind{role, clusterRole} {
			if text["kind"] == k.name {
				add(k.id(u.GetNamespace(), text["name"]))
			}
		}
		return nil
	})
}

// bound returns the service accounts that a binding names. The reference runs the other way than all others: a stale
// binding is in use by a stale account that is kept, since what still runs as that account needs its rights. An account that
// is wanted does not count: to take the binding out of the source is how its rights are taken away.
func bound(u *unstructured.Unstructured) ([]object.ID, error) {
	if !isBinding(u.GroupVersionKind().GroupKind()) {
		return nil, nil
	}
	var accounts []object.ID
	err := parsePath("subjects[]").maps(u.Object, func(subject map[string]any) error {
		text, err := texts(subject, "kind", "name", "namespace")
		if err == nil && text["kind"] == serviceAccount.name {
			// Without a namespace, which a RoleBinding may leave out, it is that of the binding.
			accounts = append(accounts, serviceAccount.id(cmp.Or(text["namespace"], u.GetNamespace()), text["name"]))
		}
		return err
	})
	return accounts, err
}

// findBindings adds the stale accounts as users of the bindings that name them.
func (s *scene) findBindings(targets object.Set, users map[object.ID][]User) []error {
	var problems []error
	for _, u := range s.live {
		id := object.IDOf(u)
		if !targets.Has(id) {
			continue
		}
		subjects, err := bound(u)
		if err != nil {
			problems = append(problems, &MalformedError{ID: id, Err: err})
		}
		for _, account := range subjects {
			if s.stale.has(account) {
				users[id] = append(users[id], User{ID: account, Why: whyBound})
			}
		}
	}
	return problems
}
