package kustomization

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// watchConfigs queues a Kustomization when a ConfigMap or Secret that it refers to changes and has the label for it. Only metadata
// is watched: what is in them is read when it is needed.
func (r *Reconciler) watchConfigs(c *builder.Builder) {
	if r.WatchConfigs == nil {
		return
	}
	labelled := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})
	c.WatchesMetadata(&corev1.ConfigMap{}, r.enqueueBy(byConfigMap), labelled)
	c.WatchesMetadata(&corev1.Secret{}, r.enqueueBy(bySecret), labelled)
}

// configMapKeys are the keys of a Kustomization in the index by ConfigMap.
func configMapKeys(obj client.Object) []string {
	ks := obj.(*v1.Kustomization) //nolint:forcetypeassert // the index is on Kustomizations
	keys := substituteKeys(ks, "ConfigMap")
	if kc := ks.Spec.KubeConfig; kc != nil && kc.ConfigMapRef != nil {
		keys = append(keys, namespaced("", kc.ConfigMapRef.Name, ks.Namespace))
	}
	return keys
}

// secretKeys are the keys of a Kustomization in the index by Secret.
func secretKeys(obj client.Object) []string {
	ks := obj.(*v1.Kustomization) //nolint:forcetypeassert // the index is on Kustomizations
	keys := substituteKeys(ks, "Secret")
	if kc := ks.Spec.KubeConfig; kc != nil && kc.SecretRef != nil {
		keys = append(keys, namespaced("", kc.SecretRef.Name, ks.Namespace))
	}
	if d := ks.Spec.Decryption; d != nil && d.SecretRef != nil {
		keys = append(keys, namespaced("", d.SecretRef.Name, ks.Namespace))
	}
	return keys
}

func substituteKeys(ks *v1.Kustomization, kind string) []string {
	if ks.Spec.PostBuild == nil {
		return nil
	}
	var keys []string
	for _, ref := range ks.Spec.PostBuild.SubstituteFrom {
		if ref.Kind == kind {
			keys = append(keys, namespaced("", ref.Name, ks.Namespace))
		}
	}
	return keys
}
