package usage

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// kind is a kind of object that can be referred to.
type kind struct {
	group   string
	name    string
	cluster bool // cluster-scoped: its identity has no namespace
}

// The kinds that pods and workloads refer to.
var (
	configMap             = kind{name: "ConfigMap"}
	secret                = kind{name: "Secret"}
	serviceAccount        = kind{name: "ServiceAccount"}
	claim                 = kind{name: "PersistentVolumeClaim"}
	service               = kind{name: "Service"}
	endpoints             = kind{name: "Endpoints"}
	priorityClass         = kind{group: "scheduling.k8s.io", name: "PriorityClass", cluster: true}
	podGroup              = kind{group: "scheduling.k8s.io", name: "PodGroup"}
	runtimeClass          = kind{group: "node.k8s.io", name: "RuntimeClass", cluster: true}
	storageClass          = kind{group: "storage.k8s.io", name: "StorageClass", cluster: true}
	attributesClass       = kind{group: "storage.k8s.io", name: "VolumeAttributesClass", cluster: true}
	resourceClaim         = kind{group: "resource.k8s.io", name: "ResourceClaim"}
	resourceClaimTemplate = kind{group: "resource.k8s.io", name: "ResourceClaimTemplate"}
	snapshot              = kind{group: "snapshot.storage.k8s.io", name: "VolumeSnapshot"}
	clusterTrustBundle    = kind{group: "certificates.k8s.io", name: "ClusterTrustBundle", cluster: true}
)

// id is the identity of the object of this kind that something in the namespace refers to by name.
func (k kind) id(namespace, name string) object.ID {
	if k.cluster {
		namespace = ""
	}
	return object.ID{Group: k.group, Kind: k.name, Namespace: namespace, Name: name}
}

// rule says that the strings at the end of the path are names of objects of the kind.
type rule struct {
	path   path
	target kind
}

func at(p string, target kind) rule { return rule{path: parsePath(p), target: target} }

// under puts the rules below a prefix.
func under(prefix string, rules ...rule) []rule {
	out := make([]rule, 0, len(rules))
	for _, r := range rules {
		out = append(out, rule{path: append(parsePath(prefix), r.path...), target: r.target})
	}
	return out
}

// containerRules hold in every container list. fileKeyRef is absent: it names a file of a volume, not an object.
// Source: core/v1 EnvVarSource and EnvFromSource.
var containerRules = []rule{
	at("env[].valueFrom.configMapKeyRef.name", configMap),
	at("env[].valueFrom.secretKeyRef.name", secret),
	at("envFrom[].configMapRef.name", configMap),
	at("envFrom[].secretRef.name", secret),
}

// claimRules hold in the spec of a PersistentVolumeClaim and of the templates of one.
// Source: core/v1 PersistentVolumeClaimSpec.
var claimRules = []rule{
	at("storageClassName", storageClass),
	at("volumeAttributesClassName", attributesClass),
}

// volumeRules hold in every volume. Volumes without a rule name no object (emptyDir, hostPath, downwardAPI, image,
// podCertificate) or nothing that a manifest can hold. Source: core/v1 VolumeSource and VolumeProjection.
var volumeRules = append([]rule{
	at("configMap.name", configMap),
	at("secret.secretName", secret),
	at("persistentVolumeClaim.claimName", claim),
	at("projected.sources[].configMap.name", configMap),
	at("projected.sources[].secret.name", secret),
	at("projected.sources[].clusterTrustBundle.name", clusterTrustBundle),
	at("csi.nodePublishSecretRef.name", secret),
	at("azureFile.secretName", secret),
	at("cephfs.secretRef.name", secret),
	at("cinder.secretRef.name", secret),
	at("flexVolume.secretRef.name", secret),
	at("iscsi.secretRef.name", secret),
	at("rbd.secretRef.name", secret),
	at("scaleIO.secretRef.name", secret),
	at("storageos.secretRef.name", secret),
	at("glusterfs.endpoints", endpoints),
}, under("ephemeral.volumeClaimTemplate.spec", claimRules...)...)

// podRules hold in a pod spec. The service account is not here, since it has a default. Source: core/v1 PodSpec.
var podRules = join(
	under("containers[]", containerRules...),
	under("initContainers[]", containerRules...),
	under("ephemeralContainers[]", containerRules...),
	under("volumes[]", volumeRules...),
	[]rule{
		at("imagePullSecrets[].name", secret),
		at("priorityClassName", priorityClass),
		at("runtimeClassName", runtimeClass),
		at("resourceClaims[].resourceClaimName", resourceClaim),
		at("resourceClaims[].resourceClaimTemplateName", resourceClaimTemplate),
		at("schedulingGroup.podGroupName", podGroup),
	},
)

// objectRules are references that stand outside the pod template, by the kind that holds them.
var objectRules = map[schema.GroupKind][]rule{
	// A StatefulSet's governing Service gives its pods their names. Source: apps/v1 StatefulSetSpec.
	{Group: "apps", Kind: "StatefulSet"}: append(
		under("spec.volumeClaimTemplates[].spec", claimRules...), at("spec.serviceName", service)),
	{Kind: "PersistentVolumeClaim"}: under("spec", claimRules...),
	// Pods get the pull secrets of their account when they are admitted. Source: core/v1 ServiceAccount.
	{Kind: "ServiceAccount"}: {at("imagePullSecrets[].name", secret), at("secrets[].name", secret)},
	{Group: "networking.k8s.io", Kind: "Ingress"}: {
		at("spec.tls[].secretName", secret),
		at("spec.defaultBackend.service.name", service),
		at("spec.rules[].http.paths[].backend.service.name", service),
	},
}

func join(lists ...[]rule) []rule {
	var out []rule
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// apply calls add with every object that the rules find in the node.
func apply(rules []rule, node any, namespace string, add func(object.ID)) error {
	for _, r := range rules {
		err := r.path.names(node, func(name string) { add(r.target.id(namespace, name)) })
		if err != nil {
			return err
		}
	}
	return nil
}
