package install

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var update = flag.Bool("update", false, "rewrite the files of expected manifests")

func TestManifestsAreAsReviewed(t *testing.T) {
	tests := map[string]Options{
		"default":       {Version: "v1.2.3"},
		"kustomization": {Version: "v1.2.3", Namespace: "gitops", Controllers: []string{ControllerKustomization}, Image: "mirror:5000/holdfast:v9", EventsAddr: "http://notification-controller.flux-system.svc.cluster.local./"},
		"least":         {Version: "v1.2.3", Profile: ProfileLeast},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			_, rest := split(mustObjects(t, options))
			var got bytes.Buffer
			if err := Export(&got, rest); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name+".yaml"), got.Bytes())
		})
	}
}

// The exported text reads back as the same objects, and is the same each time.
func TestExportRoundTrips(t *testing.T) {
	objects := mustObjects(t, Options{Version: "v1.2.3"})
	var first, second bytes.Buffer
	if err := Export(&first, objects); err != nil {
		t.Fatal(err)
	}
	if err := Export(&second, mustObjects(t, Options{Version: "v1.2.3"})); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("two exports differ")
	}
	again, err := parse(&first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects, again); diff != "" {
		t.Errorf("the export reads back differently:\n%s", diff)
	}
}

func TestEveryObjectCarriesTheLabelsOfFlux(t *testing.T) {
	for _, object := range mustObjects(t, Options{Version: "v1.2.3+build"}) {
		labels := object.GetLabels()
		if labels[partOfLabel] != "flux" || labels[instanceLabel] != "flux-system" || labels[versionLabel] != "v1.2.3-build" {
			t.Errorf("%s has labels %v", name(object), labels)
		}
	}
}

// What must exist before something else comes before it.
func TestObjectsAreInOrder(t *testing.T) {
	var kinds []string
	for _, object := range mustObjects(t, Options{}) {
		if kind := object.GetKind(); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	want := []string{"CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "NetworkPolicy", "Deployment"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("order of kinds (-want +got):\n%s", diff)
	}
}

func TestCRDs(t *testing.T) {
	names := func(o Options) []string {
		o.CRDsOnly = true
		var all []string
		for _, object := range mustObjects(t, o) {
			all = append(all, object.GetName())
		}
		return all
	}
	sources := []string{"buckets", "externalartifacts", "gitrepositories", "helmcharts", "helmrepositories", "ocirepositories"}
	want := []string{"kustomizations." + kustomizeGroup}
	if diff := cmp.Diff(want, names(Options{Controllers: []string{ControllerKustomization}})); diff != "" {
		t.Errorf("beside source-controller (-want +got):\n%s", diff)
	}
	for _, source := range sources {
		want = append(want, source+"."+sourceGroup)
	}
	if diff := cmp.Diff(want, names(Options{})); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
}

// The CRD has what users of Flux rely on.
func TestKustomizationCRDKeepsTheShapeOfFlux(t *testing.T) {
	crd := kustomizationCRD(t)
	if crd.Annotations["kustomize.toolkit.fluxcd.io/substitute"] != "disabled" {
		t.Errorf("annotations are %v", crd.Annotations)
	}
	names := crd.Spec.Names
	if !slices.Equal(names.ShortNames, []string{"ks"}) || !slices.Equal(names.Categories, []string{"all", "fluxcd", "fluxcd-appliers"}) {
		t.Errorf("names are %+v", names)
	}
	if crd.Spec.Scope != apiextensionsv1.NamespaceScoped || len(crd.Spec.Versions) != 1 {
		t.Fatalf("scope %s, %d versions", crd.Spec.Scope, len(crd.Spec.Versions))
	}
	v := crd.Spec.Versions[0]
	if v.Name != "v1" || !v.Served || !v.Storage || v.Subresources == nil || v.Subresources.Status == nil {
		t.Errorf("version is %s, served %t, stored %t, subresources %v", v.Name, v.Served, v.Storage, v.Subresources)
	}
	var columns []string
	for _, column := range v.AdditionalPrinterColumns {
		columns = append(columns, column.Name)
	}
	if !slices.Equal(columns, []string{"Age", "Ready", "Status"}) {
		t.Errorf("printer columns are %v", columns)
	}
	spec, status := v.Schema.OpenAPIV3Schema.Properties["spec"], v.Schema.OpenAPIV3Schema.Properties["status"]
	if !slices.Equal(spec.Required, []string{"interval", "prune", "sourceRef"}) {
		t.Errorf("spec requires %v", spec.Required)
	}
	if status.Default == nil || string(status.Default.Raw) != `{"observedGeneration":-1}` {
		t.Errorf("default status is %v", status.Default)
	}
	if rules := spec.Properties["kubeConfig"].XValidations; len(rules) != 2 {
		t.Errorf("kubeConfig has rules %v", rules)
	}
	for _, field := range []string{"spec", "status"} {
		if _, ok := v.Schema.OpenAPIV3Schema.Properties[field].Properties["rollout"]; !ok {
			t.Errorf("%s.rollout is missing", field)
		}
	}
}

// Everything in Flux's CRD is in ours, with the same meaning; descriptions may differ.
func TestKustomizationCRDIsASupersetOfFlux(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("testdata", "flux", "kustomize.toolkit.fluxcd.io_kustomizations.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	ours, _ := split(mustObjects(t, Options{CRDsOnly: true, Controllers: []string{ControllerKustomization}}))
	contains(t, "", parsed[0].Object, ours[0].Object)
}

// contains checks that want is in got, at every depth.
func contains(t *testing.T, path string, want, got any) {
	t.Helper()
	if w, ok := want.(map[string]any); ok {
		g, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s is %T, want an object", path, got)
			return
		}
		for key, value := range w {
			if _, text := value.(string); key == "description" && text {
				continue
			}
			contains(t, path+"."+key, value, g[key])
		}
		return
	}
	if w, ok := want.([]any); ok && strings.HasSuffix(path, ".versions") {
		contains(t, path+"[0]", w[0], got.([]any)[0])
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-Flux +ours):\n%s", path, diff)
	}
}

func TestRightsAreThoseOfFlux(t *testing.T) {
	var admins []string
	for _, object := range mustObjects(t, Options{Namespace: "gitops"}) {
		switch object.GetKind() {
		case "ClusterRoleBinding":
			binding := convert[rbacv1.ClusterRoleBinding](t, object)
			if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "holdfast" || binding.Subjects[0].Namespace != "gitops" {
				t.Errorf("%s binds %v", binding.Name, binding.Subjects)
			}
			if binding.RoleRef.Name == "cluster-admin" {
				admins = append(admins, binding.Name)
			}
		case "ClusterRole":
			role := convert[rbacv1.ClusterRole](t, object)
			if !strings.HasSuffix(role.Name, "-gitops") {
				t.Errorf("role %s would clash with that of another installation", role.Name)
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.APIGroups, "*") {
					t.Errorf("role %s gives everything: %v", role.Name, rule)
				}
				if strings.HasPrefix(role.Name, "holdfast-view") && !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
					t.Errorf("role %s gives %v", role.Name, rule.Verbs)
				}
			}
		}
	}
	if !slices.Equal(admins, []string{"holdfast-reconciler-gitops"}) {
		t.Errorf("cluster-admin is bound by %v", admins)
	}
}

// The profile least writes nothing that Git asks for, reads no subresource by a wildcard, such as pods/exec, and gives no tokens.
func TestRightsOfTheLeastProfile(t *testing.T) {
	reads := []string{"get", "list", "watch"}
	allowed := map[string][]string{
		"kustomizations": {"update", "patch"}, "kustomizations/status": {"update", "patch"}, "kustomizations/finalizers": {"update", "patch"},
		"gitrepositories": {"update", "patch"}, "gitrepositories/status": {"update", "patch"}, "gitrepositories/finalizers": {"update", "patch"},
		"secrets": {"create", "update", "patch", "delete"}, "events": {"create", "patch"}, "leases": {"create", "update", "patch", "delete"},
		"serviceaccounts": {"impersonate"},
	}
	for _, object := range mustObjects(t, Options{Profile: ProfileLeast}) {
		switch object.GetKind() {
		case "ClusterRoleBinding":
			if ref := convert[rbacv1.ClusterRoleBinding](t, object).RoleRef.Name; !strings.HasPrefix(ref, "holdfast-") {
				t.Errorf("%s is bound", ref)
			}
		case "ClusterRole":
			role := convert[rbacv1.ClusterRole](t, object)
			if strings.HasPrefix(role.Name, "holdfast-view") || strings.HasPrefix(role.Name, "holdfast-edit") {
				continue // for people
			}
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					if resource == "*" || strings.HasPrefix(resource, "pods/") || strings.HasPrefix(resource, "serviceaccounts/") {
						t.Errorf("%s names %s", role.Name, resource)
					}
					for _, verb := range rule.Verbs {
						if !slices.Contains(reads, verb) && !slices.Contains(allowed[resource], verb) {
							t.Errorf("%s may %s %s", role.Name, verb, resource)
						}
					}
				}
			}
		}
	}
}

// The container is locked down, and the ports and volumes that its arguments use exist.
func TestDeploymentIsRestricted(t *testing.T) {
	objects := mustObjects(t, Options{})
	deployment := convert[appsv1.Deployment](t, objects[len(objects)-1])
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.Containers[0].Name != "manager" {
		t.Fatalf("containers are %v", pod.Containers)
	}
	container := pod.Containers[0]
	sc := container.SecurityContext
	if !*sc.ReadOnlyRootFilesystem || !*sc.RunAsNonRoot || *sc.AllowPrivilegeEscalation || sc.Capabilities.Drop[0] != "ALL" {
		t.Errorf("security context is %+v", sc)
	}
	if sc.SeccompProfile.Type != "RuntimeDefault" || *pod.SecurityContext.FSGroup != 1337 {
		t.Errorf("seccomp %v, fsGroup %v", sc.SeccompProfile, pod.SecurityContext.FSGroup)
	}
	if container.Args[0] != "run" || !slices.Contains(container.Args, "--enable-leader-election") {
		t.Errorf("arguments are %v", container.Args)
	}
	if !strings.HasPrefix(container.Image, defaultRepository+":") {
		t.Errorf("image is %s", container.Image)
	}
}

func TestRefusedOptions(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
	}{
		"unknown profile":   {options: Options{Profile: "root"}, want: `"root" is not known`},
		"unknown namespace": {options: Options{Namespace: "Team A"}, want: `"Team A" can't be used`},
		"no tag":            {options: Options{Image: "host:5000/holdfast"}, want: "has no tag"},
		"not an image":      {options: Options{Image: "a:b\nc: d"}, want: "can't be used"},
		"controller":        {options: Options{Controllers: []string{"helm"}}, want: `"helm" is not known`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Objects(test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

// Only the profile least has something to take back: the very binding that the profile flux makes.
func TestSuperseded(t *testing.T) {
	for name, o := range map[string]Options{"the default": {}, "flux": {Profile: ProfileFlux}, "CRDs only": {Profile: ProfileLeast, CRDsOnly: true}} {
		if got := Superseded(o); got != nil || SupersededNote(o) != "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	least := Options{Profile: ProfileLeast, Namespace: "team-a"}
	binding := Superseded(least)
	if binding == nil || !strings.Contains(SupersededNote(least), "kubectl delete clusterrolebinding "+binding.Name) {
		t.Fatalf("%v, %q", binding, SupersededNote(least))
	}
	ofFlux := func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ClusterRoleBinding" && o.GetName() == binding.Name
	}
	if !slices.ContainsFunc(mustObjects(t, Options{Namespace: "team-a"}), ofFlux) || slices.ContainsFunc(mustObjects(t, least), ofFlux) {
		t.Errorf("%s is not what the profile flux has and the profile least lacks", binding.Name)
	}
	for line := range strings.Lines(SupersededNote(least)) {
		if !strings.HasPrefix(line, "#") {
			t.Errorf("%q is no comment", line)
		}
	}
}

func mustObjects(t *testing.T, o Options) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Objects(o)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func kustomizationCRD(t *testing.T) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return convert[apiextensionsv1.CustomResourceDefinition](t, mustObjects(t, Options{CRDsOnly: true})[0])
}

// convert reads an object as its type and refuses fields that the type doesn't have.
func convert[T any](t *testing.T, object *unstructured.Unstructured) T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true); err != nil {
		t.Fatalf("%s: %v", name(object), err)
	}
	return typed
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}
