package usage

import (
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

// bound returns the service accounts that a binding names. The reference runs the other way than all others: a binding
// is in use by the account that it names, since what runs as that account needs its rights.
func bound(u *unstructured.Unstructured) ([]object.ID, error) {
	if !isBinding(u.GroupVersionKind().GroupKind()) {
		return nil, nil
	}
	var accounts []object.ID
	err := parsePath("subjects[]").maps(u.Object, func(subject map[string]any) error {
		text, err := texts(subject, "kind", "name", "namespace")
		if err == nil && text["kind"] == serviceAccount.name {
			accounts = append(accounts, serviceAccount.id(text["namespace"], text["name"]))
		}
		return err
	})
	return accounts, err
}

// findBindings adds the accounts among the live objects as users of the bindings among them.
func (s *scene) findBindings(targets object.Set, users map[object.ID][]User) []error {
	var problems []error
	accounts := s.listed(schema.GroupKind{Kind: serviceAccount.name})
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
			if accounts[account] {
				users[id] = append(users[id], User{ID: account, Why: whyBound})
			}
		}
	}
	return problems
}
