package usage

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// UserKinds are the kinds that Find has to be given in full, for every namespace that a target is in, and for all
// namespaces when a target is cluster-scoped.
var UserKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "ReplicationController"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "batch", Version: "v1", Kind: "Job"},
}

// usable are the kinds that some rule of this package can find a reference to.
var usable = func() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, k := range []kind{
		configMap, secret, serviceAccount, claim, service, endpoints, priorityClass, podGroup, runtimeClass,
		storageClass, attributesClass, resourceClaim, resourceClaimTemplate, clusterTrustBundle, snapshot,
		role, roleBinding, clusterRole, clusterRoleBinding,
	} {
		kinds[schema.GroupKind{Group: k.group, Kind: k.name}] = true
	}
	return kinds
}()

// CanBeUsed tells whether the object can be in use at all: some rule finds references to its kind, or it has a name with a
// hash, which custom resources are searched for. When it says no for every stale object, nothing needs to be listed.
func CanBeUsed(id object.ID) bool { return usable[id.GroupKind()] || HasHashSuffix(id.Name) }
