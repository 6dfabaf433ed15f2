package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fluxcd/pkg/apis/kustomize"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// Every fault that a user can cause in Git or in the spec has a message that says what is wrong and where. That no
// message shows a path of the machine or a credential is checked for every state, in conforms.
func TestUserErrorsAreSaid(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	ns := s.namespace
	tests := map[string]struct {
		files  map[string]string
		alter  func(*v1.Kustomization)
		reason string
		parts  []string
	}{
		"path": {
			alter:  at("./no/such/dir"),
			reason: "ArtifactFailed", parts: []string{"kustomization path not found: ", "no/such/dir"},
		},
		"outside": {
			alter:  at("../../etc"),
			reason: "BuildFailed", parts: []string{"../../etc", "leads out of the artifact"},
		},
		"yaml": {
			files:  map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a\n"},
			reason: "BuildFailed", parts: []string{"failed to decode Kubernetes YAML from", "yaml/a.yaml"},
		},
		"noobject": {
			files:  map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "kind: ConfigMap\ndata: {k: v}\n"},
			reason: "BuildFailed", parts: []string{"noobject/a.yaml"},
		},
		"resource": {
			files:  map[string]string{"kustomization.yaml": "resources: [gone.yaml]\n"},
			reason: "BuildFailed", parts: []string{"kustomize build failed: ", "resource/gone.yaml"},
		},
		"twice": {
			files:  map[string]string{"a.yaml": configMap("same", "1"), "b.yaml": configMap("same", "2")},
			reason: "BuildFailed", parts: []string{"same", "twice/a.yaml", "twice/b.yaml"},
		},
		"generatename": {
			files:  map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: some-}\n"},
			reason: "BuildFailed", parts: []string{"generateName", "generatename/a.yaml"},
		},
		"helm": {
			files:  map[string]string{"kustomization.yaml": "helmCharts: [{name: x, repo: https://charts.invalid}]\n"},
			reason: "BuildFailed", parts: []string{"helmCharts", "helm/kustomization.yaml", "not supported"},
		},
		"kind": {
			files:  map[string]string{"a.yaml": "apiVersion: example.com/v1\nkind: Unheard\nmetadata: {name: of}\n"},
			reason: "ReconciliationFailed", parts: []string{"Unheard/" + ns + "/kind-of", "example.com/v1", "apply its CustomResourceDefinition first"},
		},
		"field": {
			files:  map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: [1]}\n"},
			reason: "ReconciliationFailed", parts: []string{"ConfigMap/" + ns + "/field-a", ".data.k"},
		},
		"typo": {
			files:  map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndtaa: {k: v}\n"},
			reason: "ReconciliationFailed", parts: []string{"ConfigMap/" + ns + "/typo-a", "dtaa"},
		},
		"value": {
			files:  map[string]string{"a.yaml": strings.Replace(deployment("a", goodImage, ""), "replicas: 2", "replicas: -1", 1)},
			reason: "ReconciliationFailed", parts: []string{"Deployment/" + ns + "/value-a dry-run failed (Invalid)", "spec.replicas"},
		},
		"namespace": {
			files:  map[string]string{"a.yaml": inNamespace("no-such-namespace", configMap("a", "1"))},
			alter:  func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" },
			reason: "ReconciliationFailed", parts: []string{"ConfigMap/no-such-namespace/namespace-a", `"no-such-namespace" not found`},
		},
		"nonamespace": {
			files:  map[string]string{"a.yaml": configMap("a", "1")},
			alter:  func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" },
			reason: "ReconciliationFailed", parts: []string{"ConfigMap/nonamespace-a namespace not specified"},
		},
		"encrypted": {
			files:  map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: \"ENC[AES256_GCM,data:x,type:str]\"}\nsops: {mac: \"ENC[AES256_GCM,data:x,type:str]\", version: 3.9.0}\n"},
			reason: "ReconciliationFailed", parts: []string{"Secret/" + ns + "/encrypted-a is SOPS encrypted, configuring decryption is required"},
		},
		"envfile": {
			files:  map[string]string{"kustomization.yaml": "secretGenerator: [{name: a, envs: [a.env]}]\n", "a.env": "k=ENC[AES256_GCM,data:x,type:str]\nsops_mac=ENC[AES256_GCM,data:x,type:str]\n"},
			reason: "ReconciliationFailed", parts: []string{"Secret/" + ns + "/envfile-a-", "is SOPS encrypted"},
		},
		"patch": {
			files:  map[string]string{"a.yaml": configMap("a", "1")},
			alter:  func(ks *v1.Kustomization) { ks.Spec.Patches = append(ks.Spec.Patches, badPatch) },
			reason: "BuildFailed", parts: []string{"kustomize build failed: "},
		},
		"component": {
			files:  map[string]string{"a.yaml": configMap("a", "1")},
			alter:  func(ks *v1.Kustomization) { ks.Spec.Components = []string{"https://example.invalid/c"} },
			reason: "BuildFailed", parts: []string{"component path 'https://example.invalid/c' must be local and relative"},
		},
	}
	files := map[string]string{"good/a.yaml": configMap("good", "1")}
	for name, test := range tests {
		for file, content := range test.files {
			files[name+"/"+file] = content
		}
	}
	s.push(files)
	s.follow()
	names := slices.Sorted(maps.Keys(tests))
	for _, name := range names {
		s.deploy(name, at("./"+name), func(ks *v1.Kustomization) {
			ks.Spec.NamePrefix, ks.Spec.RetryInterval.Duration = name+"-", time.Minute
			if alter := tests[name].alter; alter != nil {
				alter(ks)
			}
		})
	}
	for _, name := range names {
		test := tests[name]
		var message string
		eventually(t, within, name+" has failed", func(ctx context.Context) error {
			ks, err := s.get(ctx, name)
			if err != nil {
				return err
			}
			c := meta.FindStatusCondition(ks.Status.Conditions, "Ready")
			if c == nil || c.Status != metav1.ConditionFalse || strings.HasPrefix(c.Message, "Source artifact not found") {
				return fmt.Errorf("%v", messages(ks))
			}
			message = c.Reason + ": " + c.Message
			return nil
		})
		if !strings.HasPrefix(message, test.reason) || !containsAll(message, test.parts) {
			t.Errorf("%s: want %s with %q, got\n\t%s", name, test.reason, test.parts, message)
		}
	}
}

// Faults of the source show in the Kustomization, too, in the source's words and without its credentials.
func TestSourceErrorsAreSaid(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.git.Username, s.git.Password = "someone", "hunter3"
	s.checkConformance()
	runHoldfast(t, s.namespace)
	s.push(map[string]string{"a.yaml": configMap("a", "1")})
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "wrong"},
		StringData: map[string]string{"username": "someone", "password": "hunter2"}})
	sources := map[string]struct {
		alter func(*sourcev1.GitRepositorySpec)
		parts []string
	}{
		"url":         {func(g *sourcev1.GitRepositorySpec) { g.URL = "http://127.0.0.1:1/none" }, []string{"127.0.0.1:1"}},
		"credentials": {func(g *sourcev1.GitRepositorySpec) { g.SecretRef = &fluxmeta.LocalObjectReference{Name: "wrong"} }, []string{"authentication required", "spec.secretRef"}},
		"none":        {func(*sourcev1.GitRepositorySpec) {}, []string{"authentication required", "secretRef"}},
	}
	for name, source := range sources {
		g := &sourcev1.GitRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		g.Spec.URL, g.Spec.Interval = s.git.URL(repoName), metav1.Duration{Duration: time.Minute}
		g.Spec.Reference = &sourcev1.GitRepositoryRef{Branch: "main"}
		source.alter(&g.Spec)
		create(t, g)
		s.deploy(name, func(ks *v1.Kustomization) { ks.Spec.SourceRef.Name = name })
	}
	for name, source := range sources {
		parts := append([]string{"Source artifact not found, retrying in 1s", "GitRepository/" + s.namespace + "/" + name}, source.parts...)
		s.awaitMessage(name, "Ready", metav1.ConditionFalse, "ArtifactFailed", parts...)
	}
	s.deploy("absent", func(ks *v1.Kustomization) { ks.Spec.SourceRef.Name = "absent" })
	s.awaitMessage("absent", "Ready", metav1.ConditionFalse, "ArtifactFailed", "GitRepository/"+s.namespace+"/absent", "not found", "spec.sourceRef")
}

// Forbidden: rights that the controller lacks are named, with the user and the object, and nothing of what it can't read is
// taken for gone.
func TestForbiddenIsSaid(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	name := uniqueName("limited")
	rights := []rbacv1.PolicyRule{
		{APIGroups: []string{"kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "events"}, Verbs: []string{"*"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list"}},
		// What announces a change of variables and keys; not to read them.
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}},
		// Everything that can use a ConfigMap but the pods.
		{APIGroups: []string{"apps", "batch"}, Resources: []string{"*"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"replicationcontrollers"}, Verbs: []string{"list"}},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rights}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}}}
	create(t, role, binding)
	t.Cleanup(func() {
		for _, o := range []client.Object{binding, role} {
			// The test's own context has ended by now.
			if err := kube.Delete(context.Background(), o); err != nil {
				t.Errorf("delete %s: %v", o.GetName(), err)
			}
		}
	})
	s.runAs(name)
	s.push(map[string]string{"a.yaml": configMap("a", "1"), "s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hunter2}\n"})
	s.follow()
	s.deploy("app")
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed",
		"Secret/"+s.namespace+"/s", "forbidden", `User "`+name+`"`)

	// Who uses a ConfigMap can't be listed: it is kept, with the missing verb.
	r2 := s.push(map[string]string{"b.yaml": configMap("b", "1"), "a.yaml": configMap("a", "1")})
	s.awaitReady("app", r2)
	// What could not be read is not taken for gone.
	unread := s.awaitRetained("app", s.id("Secret", "s"), v1.RetainedUnverified)
	if !containsAll(unread.Message, []string{"cannot get", "secrets"}) {
		t.Errorf("status says %q", unread.Message)
	}
	r3 := s.push(map[string]string{"b.yaml": configMap("b", "1")})
	s.awaitReady("app", r3)
	kept := s.awaitRetained("app", s.cmID("a"), v1.RetainedUnverified)
	if !containsAll(kept.Message, []string{"could not be listed", "pods", "cannot list"}) {
		t.Errorf("status says %q", kept.Message)
	}
	s.stays(s.cm("a"))
}

// runAs runs the controllers with the rights of a user, once these are in force.
func (s *scenario) runAs(user string) {
	s.t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	limited, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, within, "the rights are in force", func(ctx context.Context) error {
		return errors.Join(limited.List(ctx, &apiextensionsv1.CustomResourceDefinitionList{}), limited.List(ctx, &v1.KustomizationList{}))
	})
	ctx, cancel := context.WithCancel(context.Background())
	h := &holdfast{cancel: cancel, done: make(chan error, 1)}
	options := testOptions(s.t, s.namespace)
	go func() { h.done <- app.Run(ctx, config, options) }()
	s.t.Cleanup(func() { h.stop(s.t) })
}

// badPatch has a target that is there, and a path that is not.
var badPatch = kustomize.Patch{
	Patch:  "- op: remove\n  path: /spec/none\n",
	Target: &kustomize.Selector{Kind: "ConfigMap"},
}
