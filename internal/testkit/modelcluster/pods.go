package modelcluster

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// podOf returns a new pod of a template, with a name that is free.
func podOf(owner *unstructured.Unstructured, taken map[string]bool) *unstructured.Unstructured {
	name := ""
	for i := 0; name == "" || taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", owner.GetName(), i)
	}
	pod := dependent(owner, podKind.WithVersion("v1"), name)
	inherit(pod, owner, []string{"spec", "template", "metadata", "labels"}, "metadata", "labels")
	pod.Object["spec"] = runtime.DeepCopyJSONValue(lookup(owner.Object, []string{"spec", "template", "spec"}))
	return pod
}

// syncPod starts a pod, lets it end, or takes it away. A pod starts when all that its spec names is there and its image can
// be pulled; an image whose tag is "broken" can't, "unreachable" stands for a registry that does not answer, and "crashes" for a
// program that ends at once. One of a Job ends by itself, badly if the tag is "fails".
func (c *Cluster) syncPod(e *entry) bool {
	pod := e.obj
	if pod.GetDeletionTimestamp() != nil {
		return c.write(Kubelet, e, func(obj map[string]any) { setNested(obj, "true", "metadata", "annotations", doneAnnotation) })
	}
	status := map[string]any{"phase": "Pending"}
	spec, _ := pod.Object["spec"].(map[string]any)
	phase := lookup(pod.Object, []string{"status", "phase"})
	if phase == "Succeeded" || phase == "Failed" || (isTrue(pod, "Ready") && !runsOnce(pod)) {
		return false // a container that runs needs its configuration no more, until it starts again
	}
	switch missing := c.missing(pod); {
	case isTrue(pod, "Ready") && strings.HasSuffix(imageOf(spec), ":fails"):
		status = map[string]any{"phase": "Failed"}
	case isTrue(pod, "Ready"):
		status = map[string]any{"phase": "Succeeded"}
	case len(missing) > 0:
		status["reason"] = ConfigError + joinIDs(missing) + " not found"
		status["containerStatuses"] = waiting("CreateContainerConfigError", joinIDs(missing)+" not found")
	case strings.HasSuffix(imageOf(spec), ":broken"):
		status["containerStatuses"] = waiting("ImagePullBackOff", "Back-off pulling image: not found")
	case strings.HasSuffix(imageOf(spec), ":unreachable"):
		status["containerStatuses"] = waiting("ErrImagePull", "dial tcp 10.0.0.1:443: i/o timeout")
	case strings.HasSuffix(imageOf(spec), ":crashes"):
		status["phase"] = "Running"
		status["conditions"] = []any{map[string]any{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}}
		status["containerStatuses"] = waiting("CrashLoopBackOff", "back-off restarting failed container")
	default:
		status = map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	}
	return c.report(Kubelet, e, status)
}

// waiting is what the kubelet says of a container that does not run.
func waiting(reason, message string) []any {
	return []any{map[string]any{"name": "main", "state": map[string]any{"waiting": map[string]any{"reason": reason, "message": message}}}}
}

func runsOnce(pod *unstructured.Unstructured) bool {
	refs := pod.GetOwnerReferences()
	return len(refs) > 0 && refs[0].Kind == "Job"
}

func imageOf(spec map[string]any) string {
	containers, _ := spec["containers"].([]any)
	for _, item := range containers {
		if c, ok := item.(map[string]any); ok {
			image, _ := c["image"].(string)
			return image
		}
	}
	return ""
}

// ConfigError begins the reason of a pod that can't start for want of its configuration.
const ConfigError = "CreateContainerConfigError: "

func joinIDs(ids []object.ID) string {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		names = append(names, id.String())
	}
	return strings.Join(names, ", ")
}

// missing lists what a pod needs to start and lacks.
func (c *Cluster) missing(pod *unstructured.Unstructured) []object.ID {
	spec, _ := pod.Object["spec"].(map[string]any)
	var missing []object.ID
	for _, id := range Needs(spec, pod.GetNamespace()) {
		if c.find(id.GroupKind(), id.Namespace, id.Name) == nil {
			missing = append(missing, id)
		}
	}
	return missing
}

// Needs lists what a pod spec names: the few ways that the model's generators write, read in the plainest way.
func Needs(spec map[string]any, namespace string) []object.ID {
	var ids []object.ID
	add := func(kind string, name any) {
		if s, ok := name.(string); ok && s != "" {
			ids = append(ids, object.ID{Kind: kind, Namespace: namespace, Name: s})
		}
	}
	add("ServiceAccount", spec["serviceAccountName"])
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range mapsIn(spec[list]) {
			for _, from := range mapsIn(container["envFrom"]) {
				add("ConfigMap", lookup(from, []string{"configMapRef", "name"}))
				add("Secret", lookup(from, []string{"secretRef", "name"}))
			}
			for _, variable := range mapsIn(container["env"]) {
				add("ConfigMap", lookup(variable, []string{"valueFrom", "configMapKeyRef", "name"}))
			}
		}
	}
	for _, volume := range mapsIn(spec["volumes"]) {
		add("ConfigMap", lookup(volume, []string{"configMap", "name"}))
		add("Secret", lookup(volume, []string{"secret", "secretName"}))
		projected, _ := volume["projected"].(map[string]any)
		for _, source := range mapsIn(projected["sources"]) {
			add("ConfigMap", lookup(source, []string{"configMap", "name"}))
		}
	}
	return ids
}

// mapsIn returns the maps of a list.
func mapsIn(list any) []map[string]any {
	items, _ := list.([]any)
	all := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}
