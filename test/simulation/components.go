package simulation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// component is a part of a source tree: a handful of objects that change together. It is a value, so that a tree can be
// copied, kept and gone back to.
type component struct {
	Kind, Name string
	// Path is the directory, and so the Kustomization, that has it.
	Path      string
	Namespace string
	// Config is the version of the configuration, which is part of a ConfigMap's name as kustomize makes it.
	Config int
	// Image is the version of the program; Broken makes it one that can't be pulled, or crashes, or whose registry does not answer.
	Image    int
	Broken   bool
	Replicas int
	Secret   bool
	Account  bool
	// Workload is the kind of what runs in an app; Way is how it refers to its configuration.
	Workload string
	Way      int
	// Partition and Parallel are settings of a StatefulSet, Suspend of a Job and a CronJob.
	Partition int
	Parallel  bool
	Suspend   bool
	// Prune is the annotation holdfast.dev/prune of the generated config and the workload; empty for none.
	Prune string
}

// The kinds of components.
const (
	anApp       = "app"
	aJob        = "job"
	plainConfig = "config"
	aNamespace  = "namespace"
	aDefinition = "definition"
	aResource   = "resource"
)

func thing(apiVersion, kind, namespace, name string, rest map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}}
	for key, value := range rest {
		u.Object[key] = value
	}
	return u
}

// hashAlphabet is what kustomize writes hashes in, and hashLength how long they are.
const (
	hashAlphabet = "bcdfghkmt2456789"
	hashLength   = 10
)

// configName is a name as kustomize's generators make it, another one for every version.
func configName(name string, version int) string {
	n, suffix := uint64(version)*0x9E3779B97F4A7C15, make([]byte, hashLength) //nolint:gosec // odd, so no two versions are alike
	for i := range suffix {
		suffix[i] = hashAlphabet[(n>>(4*i))%16]
	}
	return name + "-" + string(suffix)
}

func (c component) objects() []*unstructured.Unstructured {
	switch c.Kind {
	case anApp, aJob:
		return c.workload()
	case plainConfig:
		return []*unstructured.Unstructured{c.marked(thing("v1", "ConfigMap", c.Namespace, c.Name,
			map[string]any{"data": map[string]any{"version": fmt.Sprint(c.Config)}}))}
	case aNamespace:
		return []*unstructured.Unstructured{thing("v1", "Namespace", "", c.Name, nil)}
	case aDefinition:
		return []*unstructured.Unstructured{thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com",
			map[string]any{"spec": map[string]any{"group": "example.com", "scope": "Namespaced",
				"names":    map[string]any{"kind": "Widget", "plural": "widgets"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}}}})}
	case aResource:
		return []*unstructured.Unstructured{thing("example.com/v1", "Widget", c.Namespace, c.Name,
			map[string]any{"spec": map[string]any{"size": int64(c.Config)}})}
	}
	panic("no such component: " + c.Kind)
}

// secretMark is in every value of a Secret, so that it is found wherever one gets to.
const secretMark = "s3cr3t-"

// workload are the objects of an app or a job: what runs, and what it needs to start.
func (c component) workload() []*unstructured.Unstructured {
	config, labels := configName(c.Name, c.Config), map[string]any{"app": c.Name}
	all := []*unstructured.Unstructured{c.marked(thing("v1", "ConfigMap", c.Namespace, config,
		map[string]any{"data": map[string]any{"version": fmt.Sprint(c.Config)}}))}
	pod := c.podSpec(config)
	if c.Secret {
		name := configName(c.Name+"-key", c.Config)
		all = append(all, c.marked(thing("v1", "Secret", c.Namespace, name, map[string]any{"stringData": map[string]any{"key": secretMark + fmt.Sprint(c.Config)}})))
		addTo(pod, "volumes", map[string]any{"name": "key", "secret": map[string]any{"secretName": name}})
	}
	if c.Account {
		all = append(all, thing("v1", "ServiceAccount", c.Namespace, c.Name, nil))
		pod["serviceAccountName"] = c.Name
	}
	template := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod}
	return append(all, c.marked(c.runs(template)))
}

// marked puts the annotation about pruning on an object.
func (c component) marked(u *unstructured.Unstructured) *unstructured.Unstructured {
	if c.Prune != "" {
		u.SetAnnotations(map[string]string{v1.AnnotationPrune: c.Prune})
	}
	return u
}

func (c component) tag() string {
	switch {
	case c.Broken && c.Kind == aJob && c.Config%2 == 0:
		return "fails"
	case c.Broken && c.Kind == anApp:
		return []string{"broken", "crashes", "unreachable"}[c.Config%3]
	case c.Broken:
		return "broken"
	}
	return fmt.Sprint(c.Image)
}

func addTo(pod map[string]any, field string, value map[string]any) {
	list, _ := pod[field].([]any)
	pod[field] = append(list, value)
}

// The ways to refer to a ConfigMap.
const (
	byEnvFrom = iota
	byVolume
	byProjection
	byKeyInInit
	ways
)

// podSpec is a pod that needs a ConfigMap to start.
func (c component) podSpec(config string) map[string]any {
	container := map[string]any{"name": "main", "image": c.Name + ":" + c.tag()}
	pod := map[string]any{"containers": []any{container}}
	ref := map[string]any{"name": config}
	switch c.Way {
	case byEnvFrom:
		container["envFrom"] = []any{map[string]any{"configMapRef": ref}}
	case byVolume:
		addTo(pod, "volumes", map[string]any{"name": "config", "configMap": ref})
	case byProjection:
		addTo(pod, "volumes", map[string]any{"name": "config", "projected": map[string]any{"sources": []any{map[string]any{"configMap": ref}}}})
	case byKeyInInit:
		pod["initContainers"] = []any{map[string]any{"name": "init", "image": "init:1", "env": []any{
			map[string]any{"name": "VERSION", "valueFrom": map[string]any{"configMapKeyRef": map[string]any{"name": config, "key": "version"}}}}}}
	}
	return pod
}

// scaledLabel marks a workload whose replicas an autoscaler sets.
const scaledLabel = "example.com/autoscaled"

// runs is what makes pods of a template.
func (c component) runs(template map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"template": template}
	if c.Kind == aJob {
		if c.Suspend {
			spec["suspend"] = true
		}
		return thing("batch/v1", "Job", c.Namespace, fmt.Sprintf("%s-%d-%s", c.Name, c.Config, c.tag()), map[string]any{"spec": spec})
	}
	if c.Workload == "CronJob" {
		timer := map[string]any{"schedule": "0 * * * *", "jobTemplate": map[string]any{"spec": spec}}
		if c.Suspend {
			timer["suspend"] = true
		}
		return thing("batch/v1", "CronJob", c.Namespace, c.Name, map[string]any{"spec": timer})
	}
	spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": c.Name}}
	u := thing("apps/v1", c.Workload, c.Namespace, c.Name, map[string]any{"spec": spec})
	if c.Workload == "DaemonSet" {
		return u
	}
	if c.Replicas > 0 {
		spec["replicas"] = int64(c.Replicas)
	} else {
		u.SetLabels(map[string]string{scaledLabel: "true"})
	}
	if c.Workload == "StatefulSet" {
		if c.Partition > 0 {
			spec["updateStrategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(c.Partition)}}
		}
		if c.Parallel {
			spec["podManagementPolicy"] = "Parallel"
		}
	}
	return u
}

// needs is the component without which this one can't be applied; empty if there is none.
func (c component) needs() string {
	switch {
	case c.Namespace == teamNamespace:
		return teamNamespace
	case c.Kind == aResource:
		return "widgets"
	}
	return ""
}
