package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/install"
)

// The whole installation is accepted by a real API server, twice, and the second time changes nothing.
// It is not parallel: the labels of the CRDs belong to whoever installed last.
func TestInstallIsAcceptedAndRepeatable(t *testing.T) {
	// The image can't be pulled here, by its tag, so that no second controller gets to work.
	objects, err := install.Objects(install.Options{Version: "v1.2.3", Namespace: uniqueName("install"), Image: "holdfast:missing"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { uninstall(t, objects) })
	apply := func() []string {
		var out bytes.Buffer
		if err := install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{Out: &out}); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	if got := len(apply()); got != len(objects) {
		t.Errorf("%d lines for %d objects", got, len(objects))
	}
	for _, line := range apply() {
		if !strings.HasSuffix(line, " unchanged") && !strings.HasPrefix(line, "Deployment/") {
			t.Errorf("the second time: %s", line)
		}
	}
}

// The pods satisfy the policy that the installation's own namespace enforces.
func TestInstalledPodIsAdmitted(t *testing.T) {
	namespace := uniqueName("admitted")
	objects, err := install.Objects(install.Options{Namespace: namespace, Image: "holdfast:missing"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { uninstall(t, objects) })
	if err := install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, within, "the controller's pod exists", func(ctx context.Context) error {
		pods := &unstructured.UnstructuredList{}
		pods.SetAPIVersion("v1")
		pods.SetKind("PodList")
		if err := kube.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": "holdfast"}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}

// Of an installation with all rights nothing is left after one with few: the binding to cluster-admin goes, but not one that others
// depend on.
func TestInstallTakesRightsBack(t *testing.T) {
	t.Parallel()
	options := install.Options{Namespace: uniqueName("rights"), Image: "holdfast:missing"}
	installed := func(profile string) (string, error) {
		t.Helper()
		options.Profile = profile
		objects, err := install.Objects(options)
		if err != nil {
			t.Fatal(err)
		}
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" })
		t.Cleanup(func() { uninstall(t, objects) })
		var out bytes.Buffer
		err = install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{Out: &out, Superseded: install.Superseded(options)})
		return out.String(), err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-reconciler-" + options.Namespace}}
	if out, err := installed(install.ProfileFlux); err != nil || strings.Contains(out, "deleted") {
		t.Fatal(out, err)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(binding.DeepCopy())
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: options.Namespace, Name: "other"})
	if err := kube.Patch(t.Context(), binding, patch); err != nil {
		t.Fatal(err)
	}
	if _, err := installed(install.ProfileLeast); err == nil || !strings.Contains(err.Error(), binding.Name+" is left by the profile flux and binds others beside") {
		t.Errorf("error %v, want the binding named", err)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	patch = client.MergeFrom(binding.DeepCopy())
	binding.Subjects = binding.Subjects[:1]
	if err := kube.Patch(t.Context(), binding, patch); err != nil {
		t.Fatal(err)
	}
	if out, err := installed(install.ProfileLeast); err != nil || !strings.Contains(out, "ClusterRoleBinding/"+binding.Name+" deleted: ") {
		t.Errorf("%v, %s", err, out)
	}
	if err := isGone(t.Context(), binding); err != nil {
		t.Error(err)
	}
	if out, err := installed(install.ProfileLeast); err != nil || strings.Contains(out, "deleted") {
		t.Errorf("again: %v, %s", err, out)
	}
}

// What --export prints can be given to kubectl.
func TestExportIsForKubectl(t *testing.T) {
	t.Parallel()
	objects, err := install.Objects(install.Options{Namespace: uniqueName("export")})
	if err != nil {
		t.Fatal(err)
	}
	var manifests bytes.Buffer
	if err := install.Export(&manifests, objects); err != nil {
		t.Fatal(err)
	}
	devcluster, err := exec.LookPath(filepath.Join("..", "..", "bin", "devcluster"))
	if err != nil {
		t.Fatalf("kubectl is part of bin/devcluster: %v", err)
	}
	kubectl := exec.CommandContext(t.Context(), devcluster, "kubectl", "--kubeconfig", env.Kubeconfig,
		"create", "--dry-run=client", "--validate=strict", "-o", "name", "-f", "-")
	kubectl.Stdin = &manifests
	output, err := kubectl.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl create: %v\n%s", err, output)
	}
	if got := bytes.Count(output, []byte("\n")); got != len(objects) {
		t.Errorf("kubectl names %d of %d objects:\n%s", got, len(objects), output)
	}
}

// A cluster of Flux has the CRD under another manager: it is taken over only when that was said.
func TestInstallDoesNotTakeOverUnasked(t *testing.T) {
	t.Parallel()
	objects, err := install.Objects(install.Options{Namespace: uniqueName("conflict"), Image: "holdfast:missing"})
	if err != nil {
		t.Fatal(err)
	}
	mine := objects[len(objects)-1].DeepCopy()
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" })
	t.Cleanup(func() { uninstall(t, objects) })
	if err := install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(mine.Object, int64(0), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	err = kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(mine), client.FieldOwner("someone"), client.ForceOwnership)
	if err != nil {
		t.Fatal(err)
	}
	err = install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "--force-conflicts") || !strings.Contains(err.Error(), "Deployment/") {
		t.Errorf("error is %v, want one that names the Deployment and --force-conflicts", err)
	}
	if err := install.Apply(t.Context(), env.Config, objects, install.ApplyOptions{ForceConflicts: true}); err != nil {
		t.Errorf("with --force-conflicts: %v", err)
	}
}

// The API server keeps every field of the spec, Flux's and ours, and refuses none.
func TestKustomizationKeepsEveryField(t *testing.T) {
	t.Parallel()
	want := fullKustomization(newNamespace(t))
	got := want.DeepCopy()
	create(t, got)
	var read v1.Kustomization
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(want), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Spec, read.Spec); diff != "" {
		t.Errorf("the spec came back differently (-sent +read):\n%s", diff)
	}
	if read.Status.ObservedGeneration != -1 {
		t.Errorf("observedGeneration is %d, want -1 as in Flux", read.Status.ObservedGeneration)
	}
	if unset := unsetFields(t, want.Spec); len(unset) > 0 {
		t.Errorf("fields that this test does not set: %v", unset)
	}
}

// Status is where retained objects are remembered: the served CRD must keep it.
func TestKustomizationKeepsItsRolloutStatus(t *testing.T) {
	t.Parallel()
	object := minimalKustomization(newNamespace(t))
	create(t, object)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	object.Status.Rollout = &v1.RolloutStatus{
		Phase: v1.PhaseVerifying, Since: &now, Deadline: &now, Verified: true, WantedGeneration: 1,
		Wanted:      &v1.RevisionDigest{Revision: "main@sha1:8be41a7", Digest: "sha256:1", At: &now},
		Running:     &v1.RevisionDigest{Revision: "main@sha1:1f0c9d2", Digest: "sha256:2"},
		LastHealthy: &v1.RevisionDigest{Revision: "main@sha1:1f0c9d2", Digest: "sha256:2"},
		Retained: []v1.RetainedObject{{ID: "shop_web-9k2f__ConfigMap", Reason: v1.RetainedInUse, Message: "m", Since: &now,
			Users: []string{"Pod/shop/web"}, UserCount: 1, Until: "its users are gone"}},
		RetainedCount: 1,
		Culprits:      []v1.Culprit{{ID: "Deployment/shop/web", Reason: "InProgress", Message: "m"}},
	}
	want := object.Status.DeepCopy()
	if err := kube.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	var read v1.Kustomization
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Rollout, read.Status.Rollout); diff != "" {
		t.Errorf("the status came back differently (-sent +read):\n%s", diff)
	}
}

// What Flux's API server refuses, ours refuses.
func TestKustomizationIsValidatedAsInFlux(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	tests := map[string]func(*v1.Kustomization){
		"source kind":       func(k *v1.Kustomization) { k.Spec.SourceRef.Kind = "HelmRepository" },
		"deletion policy":   func(k *v1.Kustomization) { k.Spec.DeletionPolicy = "Forget" },
		"negative interval": func(k *v1.Kustomization) { k.Spec.Interval.Duration = -time.Minute },
		"target namespace":  func(k *v1.Kustomization) { k.Spec.TargetNamespace = strings.Repeat("n", 64) },
		"two kubeconfigs": func(k *v1.Kustomization) {
			k.Spec.KubeConfig = &meta.KubeConfigReference{
				SecretRef:    &meta.SecretKeyReference{Name: "a"},
				ConfigMapRef: &meta.LocalObjectReference{Name: "b"},
			}
		},
		"no kubeconfig": func(k *v1.Kustomization) { k.Spec.KubeConfig = &meta.KubeConfigReference{} },
		"prune order":   func(k *v1.Kustomization) { k.Spec.Rollout = &v1.RolloutPolicy{PruneOrder: "Never"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			object := minimalKustomization(namespace)
			change(object)
			if err := kube.Create(t.Context(), object, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("error is %v, want Invalid", err)
			}
		})
	}
}

func minimalKustomization(namespace string) *v1.Kustomization {
	k := &v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"}}
	k.Spec.Interval = metav1.Duration{Duration: time.Minute}
	k.Spec.Prune = true
	k.Spec.SourceRef = fluxv1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "app"}
	return k
}

// fullKustomization sets every field of the spec. It is suspended: the fields matter here, not what they do.
func fullKustomization(namespace string) *v1.Kustomization {
	k := minimalKustomization(namespace)
	minute := &metav1.Duration{Duration: time.Minute}
	k.Spec.KustomizationSpec = fluxv1.KustomizationSpec{
		CommonMetadata:          &fluxv1.CommonMetadata{Annotations: map[string]string{"a": "b"}, Labels: map[string]string{"c": "d"}},
		DependsOn:               []fluxv1.DependencyReference{{Name: "base", Namespace: "infra", ReadyExpr: "true"}},
		Decryption:              &fluxv1.Decryption{Provider: "sops", ServiceAccountName: "sops", SecretRef: &meta.LocalObjectReference{Name: "keys"}},
		Interval:                *minute,
		RetryInterval:           minute,
		KubeConfig:              &meta.KubeConfigReference{SecretRef: &meta.SecretKeyReference{Name: "remote", Key: "config"}},
		Path:                    "./deploy",
		PostBuild:               &fluxv1.PostBuild{Substitute: map[string]string{"name": "value"}, SubstituteFrom: []fluxv1.SubstituteReference{{Kind: "Secret", Name: "vars", Optional: true}}, SubstituteStrategy: "Always"},
		Prune:                   true,
		DeletionPolicy:          "WaitForTermination",
		HealthChecks:            []meta.NamespacedObjectKindReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Namespace: "shop"}},
		NamePrefix:              "pre-",
		NameSuffix:              "-suf",
		Patches:                 []kustomize.Patch{{Patch: "- op: remove\n  path: /spec", Target: &kustomize.Selector{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web", Namespace: "shop", AnnotationSelector: "a=b", LabelSelector: "c=d"}}},
		Images:                  []kustomize.Image{{Name: "web", NewName: "mirror/web", NewTag: "v2", Digest: "sha256:1"}},
		ServiceAccountName:      "deployer",
		SourceRef:               fluxv1.CrossNamespaceSourceReference{APIVersion: "source.toolkit.fluxcd.io/v1", Kind: "GitRepository", Name: "app", Namespace: "sources"},
		Suspend:                 true,
		TargetNamespace:         "shop",
		Timeout:                 minute,
		Force:                   true,
		Wait:                    true,
		Components:              []string{"../component"},
		IgnoreMissingComponents: true,
		Ignore:                  []fluxv1.IgnoreRule{{Paths: []string{"/spec/replicas"}, Target: &kustomize.Selector{Kind: "Deployment"}}},
		BuildMetadata:           []fluxv1.BuildMetadataOption{fluxv1.BuildMetadataOriginAnnotations},
		HealthCheckExprs: []kustomize.CustomHealthCheck{{APIVersion: "example.com/v1", Kind: "Thing",
			HealthCheckExpressions: kustomize.HealthCheckExpressions{InProgress: "false", Failed: "false", Current: "true"}}},
	}
	k.Spec.Rollout = &v1.RolloutPolicy{
		PruneOrder: v1.PruneAfterHealthy, Prune: []v1.PruneRule{{Kind: "ConfigMap", Name: "web", When: "Confirm"}},
		Retain: v1.RetainHistory, OnFailure: "Rollback", MaxPrune: ptr.To(intstr.FromString("30%")), KeepRevisions: ptr.To[int32](3),
		Soak: minute, RollbackOn: "Any",
		References: []v1.ReferenceRule{{Group: "example.com", Kind: "Thing", Path: ".spec.secretName", TargetKind: "Secret"}},
	}
	return k
}

// unsetFields returns the fields of the CRD's spec that an object lacks.
func unsetFields(t *testing.T, spec v1.KustomizationSpec) []string {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := kube.Get(t.Context(), client.ObjectKey{Name: "kustomizations.kustomize.toolkit.fluxcd.io"}, &crd); err != nil {
		t.Fatal(err)
	}
	sent := asMap(t, spec)
	var unset []string
	for name, field := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
		if _, ok := sent[name]; !ok {
			unset = append(unset, name)
		}
		below, ok := sent[name].(map[string]any)
		if !ok {
			continue
		}
		for inner := range field.Properties {
			// Exactly one of the two references of a kubeConfig may be set.
			if _, ok := below[inner]; !ok && name+"."+inner != "kubeConfig.configMapRef" {
				unset = append(unset, fmt.Sprintf("%s.%s", name, inner))
			}
		}
	}
	return unset
}
