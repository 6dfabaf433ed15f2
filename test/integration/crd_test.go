package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The definition that is installed, as the API server has it. P01: group, kind, scope, version, status; P02: how it is found and
// printed; P03: nobody substitutes variables in it.
func TestDefinition(t *testing.T) {
	t.Parallel()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "kustomizations.kustomize.toolkit.fluxcd.io"}, crd); err != nil {
		t.Fatal(err)
	}
	if got := crd.GetAnnotations()["kustomize.toolkit.fluxcd.io/substitute"]; got != "disabled" {
		t.Errorf("P03: annotated %q", got)
	}
	spec := crd.Object["spec"].(map[string]any)
	versions := spec["versions"].([]any)
	if len(versions) != 1 {
		t.Fatalf("P01: %d versions", len(versions))
	}
	version := versions[0].(map[string]any)
	want := `group: kustomize.toolkit.fluxcd.io
names:
  categories: [all, fluxcd, fluxcd-appliers]
  kind: Kustomization
  listKind: KustomizationList
  plural: kustomizations
  shortNames: [ks]
  singular: kustomization
scope: Namespaced
name: v1
served: true
storage: true
subresources: {status: {}}
additionalPrinterColumns:
- {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
- {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
- {name: Status, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].message'}
`
	got := map[string]any{"group": spec["group"], "names": spec["names"], "scope": spec["scope"]}
	for _, field := range []string{"name", "served", "storage", "subresources", "additionalPrinterColumns"} {
		got[field] = version[field]
	}
	if got, want := yamlOf(t, got), yamlOf(t, asObject(t, want)); got != want {
		t.Errorf("P01, P02: the definition has\n%s\nwant\n%s", got, want)
	}
}

// smallest has the fields that are required, and no other.
const smallest = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: x}
spec:
  interval: 1m
  prune: true
  sourceRef: {kind: GitRepository, name: src}
`

// What the API server makes of what a user writes: it takes and refuses the same as with Flux's definition.
func TestDefinitionValidates(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	long := func(n int) string { return strings.Repeat("a", n) }
	tests := map[string]struct {
		// changes of the smallest object: replaced text by text, or added to its spec.
		replace, by, add string
		// refused is in the answer; empty when it is taken.
		refused string
	}{
		"P04 smallest":                     {},
		"P04 no interval":                  {replace: "  interval: 1m\n", refused: "spec.interval: Required value"},
		"P04 no prune":                     {replace: "  prune: true\n", refused: "spec.prune: Required value"},
		"P04 no source":                    {replace: "  sourceRef: {kind: GitRepository, name: src}\n", refused: "spec.sourceRef: Required value"},
		"P04 no source kind":               {replace: "kind: GitRepository, ", refused: "spec.sourceRef.kind: Required value"},
		"P04 no source name":               {replace: ", name: src", refused: "spec.sourceRef.name: Required value"},
		"P05 every unit":                   {replace: "1m", by: "1h2m3.5s10ms", add: "retryInterval: 0.5h\n  timeout: 100ms"},
		"P05 interval in days":             {replace: "1m", by: "1d", refused: "spec.interval: Invalid value"},
		"P05 interval without unit":        {replace: "1m", by: `"60"`, refused: "spec.interval: Invalid value"},
		"P05 retry interval, microseconds": {add: "retryInterval: 100us", refused: "spec.retryInterval: Invalid value"},
		"P05 negative timeout":             {add: "timeout: -5s", refused: "spec.timeout: Invalid value"},
		"P06 OCIRepository":                {replace: "GitRepository", by: "OCIRepository"},
		"P06 Bucket":                       {replace: "GitRepository", by: "Bucket"},
		"P06 ExternalArtifact":             {replace: "GitRepository", by: "ExternalArtifact"},
		"P06 another source":               {replace: "GitRepository", by: "HelmRepository", refused: "spec.sourceRef.kind: Unsupported value"},
		"P06 MirrorPrune":                  {add: "deletionPolicy: MirrorPrune"},
		"P06 Delete":                       {add: "deletionPolicy: Delete"},
		"P06 WaitForTermination":           {add: "deletionPolicy: WaitForTermination"},
		"P06 Orphan":                       {add: "deletionPolicy: Orphan"},
		"P06 another policy":               {add: "deletionPolicy: Keep", refused: "spec.deletionPolicy: Unsupported value"},
		"P06 sops":                         {add: "decryption: {provider: sops}"},
		"P06 another decryption":           {add: "decryption: {provider: age}", refused: "spec.decryption.provider: Unsupported value"},
		"P06 WithVariables":                {add: "postBuild: {substituteStrategy: WithVariables}"},
		"P06 Always":                       {add: "postBuild: {substituteStrategy: Always}"},
		"P06 another strategy":             {add: "postBuild: {substituteStrategy: Never}", refused: "spec.postBuild.substituteStrategy: Unsupported value"},
		"P06 Secret and ConfigMap":         {add: "postBuild: {substituteFrom: [{kind: Secret, name: a}, {kind: ConfigMap, name: a}]}"},
		"P06 another reference":            {add: "postBuild: {substituteFrom: [{kind: Pod, name: a}]}", refused: "spec.postBuild.substituteFrom[0].kind: Unsupported value"},
		"P06 both of the metadata":         {add: "buildMetadata: [originAnnotations, transformerAnnotations]"},
		"P06 other metadata":               {add: "buildMetadata: [managedByLabel]", refused: "spec.buildMetadata[0]: Unsupported value"},
		"P07 longest":                      {add: "targetNamespace: " + long(63) + "\n  namePrefix: " + long(200) + "\n  nameSuffix: " + long(200) + "\n  postBuild: {substituteFrom: [{kind: Secret, name: " + long(253) + "}]}"},
		"P07 no namespace":                 {add: `targetNamespace: ""`, refused: "spec.targetNamespace: Invalid value"},
		"P07 long namespace":               {add: "targetNamespace: " + long(64), refused: "spec.targetNamespace: Too long"},
		"P07 no prefix":                    {add: `namePrefix: ""`, refused: "spec.namePrefix: Invalid value"},
		"P07 long prefix":                  {add: "namePrefix: " + long(201), refused: "spec.namePrefix: Too long"},
		"P07 no suffix":                    {add: `nameSuffix: ""`, refused: "spec.nameSuffix: Invalid value"},
		"P07 long suffix":                  {add: "nameSuffix: " + long(201), refused: "spec.nameSuffix: Too long"},
		"P07 reference without name":       {add: `postBuild: {substituteFrom: [{kind: Secret, name: ""}]}`, refused: "spec.postBuild.substituteFrom[0].name: Invalid value"},
		"P07 long reference":               {add: "postBuild: {substituteFrom: [{kind: Secret, name: " + long(254) + "}]}", refused: "spec.postBuild.substituteFrom[0].name: Too long"},
		"P08 Secret":                       {add: "kubeConfig: {secretRef: {name: a}}"},
		"P08 ConfigMap":                    {add: "kubeConfig: {configMapRef: {name: a}}"},
		"P08 both":                         {add: "kubeConfig: {secretRef: {name: a}, configMapRef: {name: a}}", refused: "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified"},
		"P08 neither":                      {add: "kubeConfig: {}", refused: "exactly one of spec.kubeConfig.configMapRef or spec.kubeConfig.secretRef must be specified"},
		"P09 health check without version": {add: "healthChecks: [{kind: Deployment, name: a}]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := smallest
			if tt.replace != "" {
				if text = strings.Replace(text, tt.replace, tt.by, 1); text == smallest {
					t.Fatalf("there is no %q in it", tt.replace)
				}
			}
			if tt.add != "" {
				text += "  " + tt.add + "\n"
			}
			u := &unstructured.Unstructured{Object: asObject(t, text)}
			u.SetNamespace(namespace)
			err := kube.Create(t.Context(), u, client.DryRunAll)
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("the answer is %v, want %s", err, tt.refused)
			}
		})
	}
}

// P04, P07: what the API server adds to a new object.
func TestDefinitionDefaults(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: asObject(t, smallest+"  postBuild: {substituteFrom: [{kind: Secret, name: a}]}\n")}
	u.SetNamespace(newNamespace(t))
	if err := kube.Create(t.Context(), u, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got, _, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); got != -1 || err != nil {
		t.Errorf("P04: the observed generation is %d, %v", got, err)
	}
	want := asObject(t, `force: false
interval: 1m
postBuild: {substituteFrom: [{kind: Secret, name: a, optional: false}]}
prune: true
sourceRef: {kind: GitRepository, name: src}
`)
	if got, want := yamlOf(t, u.Object["spec"]), yamlOf(t, want); got != want {
		t.Errorf("P07: the spec is\n%s\nwant\n%s", got, want)
	}
}

func asObject(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func yamlOf(t *testing.T, v any) string {
	t.Helper()
	content, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
