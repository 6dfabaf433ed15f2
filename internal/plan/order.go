package plan

import (
	"cmp"
	"strings"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// wave is the place of an object in the order of deletion. What needs others goes before what it needs.
type wave int

const (
	waveCustomResources wave = iota
	waveWebhooks
	waveWorkloads
	waveKustomizations
	waveAccess
	waveServices
	waveOther
	waveConfig
	waveCluster
	waveNamespaces
	waveDefinitions
)

// waveOfKind holds the built-in kinds whose wave their group alone does not tell.
var waveOfKind = map[string]wave{
	"CustomResourceDefinition":         waveDefinitions,
	"Namespace":                        waveNamespaces,
	"ValidatingWebhookConfiguration":   waveWebhooks,
	"MutatingWebhookConfiguration":     waveWebhooks,
	"ValidatingAdmissionPolicyBinding": waveWebhooks,
	"MutatingAdmissionPolicyBinding":   waveWebhooks,
	"Pod":                              waveWorkloads,
	"ReplicationController":            waveWorkloads,
	"HorizontalPodAutoscaler":          waveWorkloads,
	"RoleBinding":                      waveAccess,
	"ClusterRoleBinding":               waveAccess,
	"Role":                             waveAccess,
	"ClusterRole":                      waveAccess,
	"ServiceAccount":                   waveAccess,
	"Service":                          waveServices,
	"Ingress":                          waveServices,
	"ConfigMap":                        waveConfig,
	"Secret":                           waveConfig,
	"PersistentVolumeClaim":            waveConfig,
}

// builtinGroups are the groups with a dot in their name that the API server itself serves. Every other one, also under
// k8s.io (Gateway API, volume snapshots), is some controller's, which has to be there for the finalizers.
var builtinGroups = map[string]bool{
	"admissionregistration.k8s.io": true,
	"apiextensions.k8s.io":         true,
	"apiregistration.k8s.io":       true,
	"authentication.k8s.io":        true,
	"authorization.k8s.io":         true,
	"certificates.k8s.io":          true,
	"coordination.k8s.io":          true,
	"discovery.k8s.io":             true,
	"events.k8s.io":                true,
	"flowcontrol.apiserver.k8s.io": true,
	"internal.apiserver.k8s.io":    true,
	"networking.k8s.io":            true,
	"node.k8s.io":                  true,
	"rbac.authorization.k8s.io":    true,
	"resource.k8s.io":              true,
	"scheduling.k8s.io":            true,
	"storage.k8s.io":               true,
	"storagemigration.k8s.io":      true,
}

// waveOf puts an object into its wave. Custom resources are told by their group.
func waveOf(id object.ID) wave {
	if isCustom(id.Group) {
		if id.Kind == "Kustomization" && id.Group == "kustomize.toolkit.fluxcd.io" {
			return waveKustomizations
		}
		return waveCustomResources
	}
	if w, ok := waveOfKind[id.Kind]; ok {
		return w
	}
	switch id.Group {
	case "apps", "batch":
		return waveWorkloads
	}
	if id.Namespace == "" {
		return waveCluster
	}
	return waveOther
}

func isCustom(group string) bool { return strings.Contains(group, ".") && !builtinGroups[group] }

// isAwaited tells whether later waves wait until the objects of a wave are gone: what has finalizers that need the rest.
func (w wave) isAwaited() bool { return w == waveCustomResources || w == waveKustomizations }

// IsDefinition tells whether the object is a CustomResourceDefinition.
func IsDefinition(id object.ID) bool {
	return id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition"
}

// IsNamespace tells whether the object is a Namespace.
func IsNamespace(id object.ID) bool { return id.Group == "" && id.Kind == "Namespace" }

// hasContents tells whether the deletion of the object takes others along.
func hasContents(id object.ID) bool { return IsDefinition(id) || IsNamespace(id) }

// compareDeletion is the total order of deletions: by wave, then by identity.
func compareDeletion(a, b object.ID) int {
	return cmp.Or(cmp.Compare(waveOf(a), waveOf(b)), object.Compare(a, b))
}
