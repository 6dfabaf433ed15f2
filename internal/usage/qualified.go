package usage

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// serviceRefs says where the API machinery refers to a Service by namespace and name: the API server calls it, and
// fails requests when it is gone. Source: admissionregistration/v1, apiregistration/v1, apiextensions/v1.
var serviceRefs = map[schema.GroupKind]path{
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: parsePath("webhooks[].clientConfig.service"),
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   parsePath("webhooks[].clientConfig.service"),
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                           parsePath("spec.service"),
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               parsePath("spec.conversion.webhook.clientConfig.service"),
}

// certificateRefs is where a Gateway names its certificates. Source: gateway.networking.k8s.io/v1 GatewayTLSConfig.
var certificateRefs = parsePath("spec.listeners[].tls.certificateRefs[]")

var gateway = schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "Gateway"}

// collectServices adds the references that carry a namespace of their own.
func collectServices(u *unstructured.Unstructured, add func(object.ID)) error {
	gk := u.GroupVersionKind().GroupKind()
	if gk == gateway {
		return certificateRefs.maps(u.Object, func(ref map[string]any) error {
			return certificate(ref, u.GetNamespace(), add)
		})
	}
	p, ok := serviceRefs[gk]
	if !ok {
		return nil
	}
	return p.maps(u.Object, func(ref map[string]any) error {
		namespace, err := path{"namespace"}.text(ref)
		if err != nil {
			return err
		}
		return path{"name"}.names(ref, func(name string) { add(service.id(namespace, name)) })
	})
}

// certificate adds the object that a Gateway's listener takes its certificate from: a Secret of the Gateway's
// namespace unless the reference says otherwise. Kinds other than Secret and ConfigMap are the implementation's own.
func certificate(ref map[string]any, namespace string, add func(object.ID)) error {
	text, err := texts(ref, "group", "kind", "namespace", "name")
	if err != nil {
		return err
	}
	target := secret
	if text["kind"] == configMap.name {
		target = configMap
	}
	if text["name"] != "" && text["group"] == "" && (text["kind"] == "" || text["kind"] == target.name) {
		add(target.id(cmp.Or(text["namespace"], namespace), text["name"]))
	}
	return nil
}

// claimSpecs says where the kinds hold the spec of a claim, or of the template of one.
var claimSpecs = map[schema.GroupKind]path{
	{Kind: "PersistentVolumeClaim"}:      parsePath("spec"),
	{Group: "apps", Kind: "StatefulSet"}: parsePath("spec.volumeClaimTemplates[].spec"),
}

// ephemeralClaim is where a pod spec holds the template of a claim.
var ephemeralClaim = parsePath("volumes[].ephemeral.volumeClaimTemplate.spec")

// collectSources adds what a claim is filled from when it is made: another claim or a snapshot. Sources of other kinds are
// the matter of their populator. Source: core/v1 PersistentVolumeClaimSpec.
func collectSources(p path, node any, namespace string, add func(object.ID)) error {
	return p.maps(node, func(spec map[string]any) error {
		for _, field := range []string{"dataSource", "dataSourceRef"} {
			err := path{field}.maps(spec, func(ref map[string]any) error { return source(ref, namespace, add) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func source(ref map[string]any, namespace string, add func(object.ID)) error {
	text, err := texts(ref, "kind", "namespace", "name")
	if err != nil || text["name"] == "" {
		return err
	}
	for _, k := range []kind{claim, snapshot} {
		if text["kind"] == k.name {
			add(k.id(cmp.Or(text["namespace"], namespace), text["name"]))
		}
	}
	return nil
}

// texts reads several fields of an object that hold strings.
func texts(m map[string]any, fields ...string) (map[string]string, error) {
	found := make(map[string]string, len(fields))
	for _, field := range fields {
		s, err := path{field}.text(m)
		if err != nil {
			return nil, err
		}
		found[field] = s
	}
	return found, nil
}
