package usage

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// UserKinds are the kinds that Find has to be given in full, for every namespace that a target is in, and for all
// namespaces when a target is cluster-scoped. In this order: what makes pods before the pods, so that a pod which is made between two
// lists is in the second one, though its maker may be at zero by then.
var UserKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ReplicationController"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "Pod"},
}

// usable are the kinds that something of UserKinds can refer to.
var usable = func() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, k := range []kind{
		configMap, secret, serviceAccount, claim, service, endpoints, priorityClass, podGroup, runtimeClass,
		storageClass, attributesClass, resourceClaim, resourceClaimTemplate, clusterTrustBundle, snapshot,
	} {
		kinds[schema.GroupKind{Group: k.group, Kind: k.name}] = true
	}
	return kinds
}()

// CanBeUsed tells whether a workload can refer to an object of this kind at all. When it says no for every stale object,
// no workload needs to be listed. Roles and their bindings are not meant: only a service account uses them, which is no
// workload, and all Pods of a cluster would add nothing; see Sources.
func CanBeUsed(id object.ID) bool { return usable[id.GroupKind()] }
