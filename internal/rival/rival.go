// Package rival knows the controllers of Flux that do the same work as holdfast, and the definition that they bring: what a
// bootstrapped Git repository holds of Flux itself.
//
// Applying them would undo a takeover: a controller that was stopped would run again, and the definition would lose the fields
// that holdfast remembers in.
package rival

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// The controllers of Flux whose work holdfast does.
const (
	KustomizeController = "kustomize-controller"
	SourceController    = "source-controller"
)

// Definition is the name of the definition of Kustomizations.
const Definition = "kustomizations.kustomize.toolkit.fluxcd.io"

// Labels of what belongs to Flux.
const (
	partOfLabel    = "app.kubernetes.io/part-of"
	componentLabel = "app.kubernetes.io/component"
	flux           = "flux"
	appLabel       = "app"
)

// IsStockDefinition tells whether an object is a definition of Kustomizations without the status in which holdfast remembers.
func IsStockDefinition(obj *unstructured.Unstructured) bool {
	if obj.GetKind() != "CustomResourceDefinition" || obj.GetName() != Definition {
		return false
	}
	versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok {
			continue
		}
		_, found, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "status", "properties", "rollout")
		if found {
			return false
		}
	}
	return true
}

// ControllerOf returns which of the controllers a workload runs, empty for none. The image tells it, whatever the workload is called and
// wherever the image was mirrored to, together with a label that Flux gives its own: others have images of such names too. Where the
// image tells nothing, the labels of the workload alone do.
func ControllerOf(obj *unstructured.Unstructured, controllers []string) string {
	containers, found, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	if !found {
		return ""
	}
	labels := obj.GetLabels()
	app, _, _ := unstructured.NestedString(obj.Object, "spec", "template", "metadata", "labels", appLabel)
	for _, controller := range controllers {
		// A shard of Flux is called after its controller.
		ofFlux := labels[partOfLabel] == flux || app == controller || strings.HasPrefix(app, controller+"-")
		if ofFlux && slices.ContainsFunc(containers, func(c any) bool { return runs(c, controller) }) {
			return controller
		}
		if labels[partOfLabel] == flux && (labels[componentLabel] == controller || obj.GetName() == controller) {
			return controller
		}
	}
	return ""
}

// runs tells whether a container has the image of a controller.
func runs(container any, controller string) bool {
	fields, _ := container.(map[string]any)
	image, _ := fields["image"].(string)
	return repository(image) == controller
}

// IsStopped tells whether a workload asks for no pods.
func IsStopped(obj *unstructured.Unstructured) bool {
	replicas, found, err := unstructured.NestedFieldNoCopy(obj.Object, "spec", "replicas")
	if !found || err != nil {
		return false
	}
	switch n := replicas.(type) {
	case int64:
		return n == 0
	case float64:
		return n == 0
	}
	return false
}

// Sets tells whether a field manager applied a field of a workload's spec.
func Sets(fields []metav1.ManagedFieldsEntry, manager, field string) bool {
	for _, entry := range fields {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var set map[string]any
		if err := json.Unmarshal(entry.FieldsV1.Raw, &set); err != nil {
			continue
		}
		if _, found, _ := unstructured.NestedFieldNoCopy(set, "f:spec", "f:"+field); found {
			return true
		}
	}
	return false
}

// Reason says why an object of a build may not be applied; empty when it may. Of a workload its annotation can say that it is no rival.
func Reason(obj *unstructured.Unstructured, controllers []string) string {
	if IsStockDefinition(obj) {
		return "it is Flux's own definition, which lacks the fields that holdfast remembers in"
	}
	if strings.EqualFold(obj.GetAnnotations()[v1.AnnotationRival], v1.RivalApply) || IsStopped(obj) {
		return ""
	}
	if controller := ControllerOf(obj, controllers); controller != "" {
		return "it would start " + controller + ", which does the same work; if it is something else, annotate it with " +
			v1.AnnotationRival + ": " + v1.RivalApply
	}
	return ""
}

// repository is the last part of the name of an image, without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image = image[strings.LastIndex(image, "/")+1:]
	image, _, _ = strings.Cut(image, ":")
	return image
}
