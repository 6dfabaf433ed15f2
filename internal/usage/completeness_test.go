package usage_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// noReference are the fields of a pod spec that end in a name and yet name no object that a manifest could hold. The
// list is what makes the test below fail when a new version of the API adds a field: it has to be looked at.
var noReference = []string{
	// Names within the pod.
	`^\.volumes\[\]\.name$`, `ontainers\[\]\.name$`, `\.volumeMounts\[\]\.name$`, `\.volumeDevices\[\]\.name$`,
	`\.env\[\]\.name$`, `\.ports\[\]\.name$`, `\.httpHeaders\[\]\.name$`, `\.resources\.claims\[\]\.name$`,
	`^\.resourceClaims\[\]\.name$`, `\.containerName$`, `\.targetContainerName$`, `\.fileKeyRef\.`,
	// Names of the system, the node, the network or a storage back end.
	`\.sysctls\[\]\.name$`, `\.dnsConfig\.options\[\]\.name$`, `\.gmsaCredentialSpecName$`, `\.runAsUserName$`, `^\.os\.name$`,
	`^\.nodeName$`, `^\.hostname$`, `\.resourceName$`, `\.pdName$`, `\.diskName$`, `\.shareName$`, `\.datasetName$`,
	`\.storagePolicyName$`, `\.initiatorName$`, `\.(scaleIO|storageos)\.volumeName$`,
	// Names of programs, which are no objects.
	`^\.schedulerName$`, `^\.schedulingGates\[\]\.name$`, `\.signerName$`,
	// The template of a claim: its own metadata, the volume it is bound to, and sources that have a kind of their own.
	`\.volumeClaimTemplate\.(metadata\.|spec\.volumeName$|spec\.dataSource)`,
}

// leaves calls visit with the path of every string in a type, in the form of the tables of the package.
func leaves(t reflect.Type, path string, depth int, visit func(string)) {
	if depth > 12 {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		leaves(t.Elem(), path, depth, visit)
	case reflect.Slice:
		leaves(t.Elem(), path+"[]", depth+1, visit)
	case reflect.String:
		visit(path)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			next := path
			if name != "" {
				next += "." + name
			}
			if f.IsExported() && name != "-" {
				leaves(f.Type, next, depth+1, visit)
			}
		}
	}
}

// plant builds the tree that has only a string at the path.
func plant(path, value string) map[string]any {
	steps := strings.Split(strings.TrimPrefix(path, "."), ".")
	var node any = value
	for _, step := range slices.Backward(steps) {
		name, isList := strings.CutSuffix(step, "[]")
		if isList {
			node = []any{node}
		}
		node = map[string]any{name: node}
	}
	return node.(map[string]any)
}

// TestEveryNameInAPodSpec takes every field of the API type whose name says that it may name something, and checks that
// it is either found or listed above.
func TestEveryNameInAPodSpec(t *testing.T) {
	candidate := regexp.MustCompile(`(?i)(name|class|serviceAccount|endpoints)$`)
	exempt := regexp.MustCompile(strings.Join(noReference, "|"))
	var found int
	leaves(reflect.TypeFor[corev1.PodSpec](), "", 0, func(path string) {
		if !candidate.MatchString(path) || exempt.MatchString(path) {
			return
		}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "namespace": "shop"}, "spec": plant(path, "needle"),
		}}
		// The field is one of the API, so that what is planted would be stored.
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &corev1.Pod{}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		refs, err := usage.References(u)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		ok := false
		for _, id := range refs {
			ok = ok || id.Name == "needle" && usage.CanBeUsed(id)
		}
		if !ok {
			t.Errorf("%s names something and is not found", path)
		}
		found++
	})
	if found < 30 {
		t.Errorf("only %d fields were tried", found)
	}
}
