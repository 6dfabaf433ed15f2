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

// waveOf puts an object into its wave. Custom resources are told by their group: built-in ones have none, or one
// without a dot, or one under k8s.io.
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

func isCustom(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// IsDefinition tells whether the object is a CustomResourceDefinition.
func IsDefinition(id object.ID) bool {
	return id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition"
}

// compareDeletion is the total order of deletions: by wave, then by identity.
func compareDeletion(a, b object.ID) int {
	return cmp.Or(cmp.Compare(waveOf(a), waveOf(b)), object.Compare(a, b))
}
