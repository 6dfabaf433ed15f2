package usage

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Source is a kind, besides UserKinds, whose objects may refer to a target.
type Source struct {
	schema.GroupKind
	// Everywhere is true when objects of other namespaces than the target's may.
	Everywhere bool
}

func near(group, name string) Source {
	return Source{GroupKind: schema.GroupKind{Group: group, Kind: name}}
}

func everywhere(s Source) Source {
	s.Everywhere = true
	return s
}

// gateways of other namespaces may refer to a certificate by a ReferenceGrant.
var gateways = Source{GroupKind: gateway, Everywhere: true}

// sources are by the kind of the target.
var sources = map[schema.GroupKind][]Source{
	{Kind: secret.name}:    {near("", serviceAccount.name), near("networking.k8s.io", "Ingress"), gateways},
	{Kind: configMap.name}: {gateways},
	{Kind: service.name}: {
		near("networking.k8s.io", "Ingress"),
		everywhere(near("admissionregistration.k8s.io", "MutatingWebhookConfiguration")),
		everywhere(near("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")),
		everywhere(near("apiextensions.k8s.io", "CustomResourceDefinition")),
		everywhere(near("apiregistration.k8s.io", "APIService")),
	},
	{Group: rbac, Kind: role.name}: {near(rbac, roleBinding.name)},
	{Group: rbac, Kind: clusterRole.name}: {
		everywhere(near(rbac, roleBinding.name)),
		everywhere(near(rbac, clusterRoleBinding.name)),
	},
}

// Sources returns the kinds, besides UserKinds, that have to be listed for the users of a target. A binding has to be
// listed itself, since it says which accounts need it; that matters only where an account is stale. The kinds that the rules
// speak of are listed whether the Kustomization has any of them or not.
func Sources(target object.ID, stale Stale, rules ...Rule) []Source {
	all := slices.Clone(builtin(target, stale))
	for _, r := range rules {
		if source := (Source{GroupKind: r.From}); r.Names(target) && !slices.Contains(all, source) {
			all = append(all, source)
		}
	}
	return all
}

func builtin(target object.ID, stale Stale) []Source {
	if gk := target.GroupKind(); isBinding(gk) && stale.hasAccount() {
		return []Source{{GroupKind: gk}}
	}
	return sources[target.GroupKind()]
}
