package rival

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestReason(t *testing.T) {
	workload := func(name, image, more string) string {
		return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + name + `, labels: {` + more + `}},
spec: {replicas: 1, template: {spec: {containers: [{name: helper, image: busybox}, {name: manager, image: "` + image + `"}]}}}}`
	}
	const part = "app.kubernetes.io/part-of: flux"
	app := func(manifest, label string) string {
		return strings.Replace(manifest, "template: {", "template: {metadata: {labels: {app: "+label+"}}, ", 1)
	}
	annotated := func(manifest, value string) string {
		return strings.Replace(manifest, "metadata: {name", "metadata: {annotations: {holdfast.dev/rival: "+value+"}, name", 1)
	}
	const ofFlux = "app.kubernetes.io/part-of: flux, app.kubernetes.io/component: kustomize-controller"
	both, one := []string{SourceController, KustomizeController}, []string{KustomizeController}
	tests := map[string]struct {
		manifest    string
		controllers []string
		want        string
	}{
		"kustomize-controller":       {workload("kustomize-controller", "ghcr.io/fluxcd/kustomize-controller:v1.9.4", ofFlux), one, "start kustomize-controller"},
		"under another name":         {workload("shard-1", "ghcr.io/fluxcd/kustomize-controller:v1.9.4", part), one, "start kustomize-controller"},
		"from a mirror, by digest":   {workload("x", "mirror:5000/flux/kustomize-controller@sha256:0123", part), one, "start kustomize-controller"},
		"an image of another name":   {workload("kustomize-controller", "mirror/kc:1", "app.kubernetes.io/part-of: flux"), one, "start kustomize-controller"},
		"by its component":           {workload("kc", "mirror/kc:1", ofFlux), one, "start kustomize-controller"},
		"only called so":             {workload("kustomize-controller", "example/web:1", ""), one, ""},
		"source-controller":          {workload("source-controller", "ghcr.io/fluxcd/source-controller:v1.9.0", part), both, "start source-controller"},
		"source-controller, beside":  {workload("source-controller", "ghcr.io/fluxcd/source-controller:v1.9.0", part), one, ""},
		"by the label of its pods":   {app(workload("kc", "ghcr.io/fluxcd/kustomize-controller:v1.9.4", ""), "kustomize-controller"), one, "start kustomize-controller"},
		"a shard, by its pods":       {app(workload("kc", "ghcr.io/fluxcd/kustomize-controller:v1.9.4", ""), "kustomize-controller-shard1"), one, "start kustomize-controller"},
		"another's, by its image":    {workload("camera", "example/source-controller:1", ""), both, ""},
		"another's, with a label":    {app(workload("camera", "example/source-controller:1", ""), "camera"), both, ""},
		"only its pods called so":    {app(workload("camera", "example/camera:1", ""), "source-controller"), both, ""},
		"said to be no rival":        {annotated(workload("kustomize-controller", "ghcr.io/fluxcd/kustomize-controller:v1.9.4", ofFlux), "Apply"), one, ""},
		"said something else":        {annotated(workload("kustomize-controller", "ghcr.io/fluxcd/kustomize-controller:v1.9.4", ofFlux), "Maybe"), one, "holdfast.dev/rival: Apply"},
		"a definition, said so":      {`{kind: CustomResourceDefinition, metadata: {annotations: {holdfast.dev/rival: Apply}, name: kustomizations.kustomize.toolkit.fluxcd.io}}`, both, "Flux's own definition"},
		"helm-controller":            {workload("helm-controller", "ghcr.io/fluxcd/helm-controller:v1.5.0", "app.kubernetes.io/part-of: flux"), both, ""},
		"holdfast":                   {workload("holdfast", "example/holdfast:v1", "app.kubernetes.io/part-of: flux, app.kubernetes.io/component: holdfast"), both, ""},
		"stopped":                    {strings.Replace(workload("kustomize-controller", "ghcr.io/fluxcd/kustomize-controller:v1.9.4", ofFlux), "replicas: 1", "replicas: 0", 1), both, ""},
		"without a number of pods":   {strings.Replace(workload("a", "b/kustomize-controller:c", part), "replicas: 1, ", "", 1), both, "start kustomize-controller"},
		"a ConfigMap that speaks":    {`{apiVersion: v1, kind: ConfigMap, metadata: {name: kustomize-controller, labels: {` + ofFlux + `}}}`, both, ""},
		"a definition of our own":    {`{kind: CustomResourceDefinition, metadata: {name: kustomizations.kustomize.toolkit.fluxcd.io}, spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {status: {properties: {rollout: {type: object}}}}}}}]}}`, both, ""},
		"a definition without ours":  {`{kind: CustomResourceDefinition, metadata: {name: kustomizations.kustomize.toolkit.fluxcd.io}, spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {status: {properties: {conditions: {type: array}}}}}}}]}}`, both, "Flux's own definition"},
		"a definition of no version": {`{kind: CustomResourceDefinition, metadata: {name: kustomizations.kustomize.toolkit.fluxcd.io}}`, both, "Flux's own definition"},
		"another definition":         {`{kind: CustomResourceDefinition, metadata: {name: gitrepositories.source.toolkit.fluxcd.io}}`, both, ""},
		"a Kustomization":            {`{kind: Kustomization, metadata: {name: kustomizations.kustomize.toolkit.fluxcd.io}}`, both, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Reason(read(t, tt.manifest), tt.controllers)
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("reason %q, want %q", got, tt.want)
			}
		})
	}
}

// The definitions themselves: that of Flux is told from that of holdfast.
func TestDefinitions(t *testing.T) {
	for path, want := range map[string]bool{
		filepath.Join("..", "install", "testdata", "flux", "kustomize.toolkit.fluxcd.io_kustomizations.yaml"): true,
		filepath.Join("..", "..", "config", "crd", "kustomize.toolkit.fluxcd.io_kustomizations.yaml"):         false,
	} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := IsStockDefinition(read(t, string(content))); got != want {
			t.Errorf("%s is the stock definition: %t, want %t", path, got, want)
		}
	}
}
