package modelcluster

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is a kind that the server can serve.
type kind struct {
	schema.GroupVersionKind
	plural     string
	namespaced bool
	// generation says that a change of the spec counts.
	generation bool
	// definition is the name of the CustomResourceDefinition that has to be established; empty for built-in kinds.
	definition string
}

func (k *kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural}
}

// builtin are the kinds that are always served.
func builtin() []*kind {
	plain := func(group, kindName string, namespaced, generation bool) *kind {
		plural := strings.ToLower(kindName) + "s"
		return &kind{schema.GroupVersionKind{Group: group, Version: "v1", Kind: kindName}, plural, namespaced, generation, ""}
	}
	return []*kind{
		plain("", "Namespace", false, false), plain("", "ConfigMap", true, false), plain("", "Secret", true, false),
		plain("", "ServiceAccount", true, false), plain("", "Service", true, false), plain("", "Pod", true, true),
		plain("", "ReplicationController", true, true),
		plain("apps", "Deployment", true, true), plain("apps", "ReplicaSet", true, true),
		plain("apps", "StatefulSet", true, true), plain("apps", "DaemonSet", true, true),
		plain("apps", "ControllerRevision", true, false),
		plain("batch", "Job", true, true), plain("batch", "CronJob", true, true),
		plain("apiextensions.k8s.io", "CustomResourceDefinition", false, true),
		plain("kustomize.toolkit.fluxcd.io", "Kustomization", true, true),
		{schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"},
			"gitrepositories", true, true, ""},
	}
}

// Kinds that the model itself deals with.
var (
	namespaceKind   = schema.GroupKind{Kind: "Namespace"}
	podKind         = schema.GroupKind{Kind: "Pod"}
	secretKind      = schema.GroupKind{Kind: "Secret"}
	deploymentKind  = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	replicaSetKind  = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	statefulSetKind = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	daemonSetKind   = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	revisionKind    = schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}
	cronJobKind     = schema.GroupKind{Group: "batch", Kind: "CronJob"}
	jobKind         = schema.GroupKind{Group: "batch", Kind: "Job"}
	definitionKind  = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// kindOf returns the kind if it is served now.
func (c *Cluster) kindOf(gk schema.GroupKind) *kind {
	k := c.kinds[gk]
	if k == nil || (k.definition != "" && !c.isEstablished(k.definition)) {
		return nil
	}
	return k
}

func (c *Cluster) isEstablished(definition string) bool {
	e := c.find(definitionKind, "", definition)
	return e != nil && isTrue(e.obj, "Established")
}

// served lists the kinds that are served now, in a fixed order.
func (c *Cluster) served() []*kind {
	var all []*kind
	for gk := range c.kinds {
		if k := c.kindOf(gk); k != nil {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *kind) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind)) })
	return all
}

// learn makes the kind of a CustomResourceDefinition known. It is served once the definition is established.
func (c *Cluster) learn(crd *unstructured.Unstructured) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
	gk := schema.GroupKind{Group: group, Kind: name}
	if c.kinds[gk] == nil {
		c.kinds[gk] = &kind{gk.WithVersion("v1"), plural, scope == "Namespaced", true, crd.GetName()}
	}
}
