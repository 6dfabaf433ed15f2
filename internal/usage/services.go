package usage

import (
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
	text := make(map[string]string, 4)
	for _, field := range []string{"group", "kind", "namespace", "name"} {
		s, err := path{field}.text(ref)
		if err != nil {
			return err
		}
		text[field] = s
	}
	target := secret
	if text["kind"] == configMap.name {
		target = configMap
	}
	if text["namespace"] != "" {
		namespace = text["namespace"]
	}
	if text["name"] != "" && text["group"] == "" && (text["kind"] == "" || text["kind"] == target.name) {
		add(target.id(namespace, text["name"]))
	}
	return nil
}
