package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// fleetDir is a repository as people write it for Flux; docs/guide/example.md speaks of it.
var fleetDir = filepath.Join("..", "testdata", "fleet")

// fleetFiles reads the repository.
func fleetFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(fleetDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(fleetDir, path)
		files[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// fleetLeftovers are the objects of the cluster that the repository makes.
var fleetLeftovers = []struct{ apiVersion, kind, name string }{
	{"rbac.authorization.k8s.io/v1", "ClusterRole", "crd-controller-flux-system"},
	{"rbac.authorization.k8s.io/v1", "ClusterRole", "cache-operator"},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "crd-controller-flux-system"},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "cluster-reconciler-flux-system"},
	{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "cache-operator"},
	{"scheduling.k8s.io/v1", "PriorityClass", "fleet-apps"},
	{"v1", "Namespace", "shop"},
	{"v1", "Namespace", "cache-system"},
	{"v1", "Namespace", fleetNamespace},
	{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "caches.fleet.example.com"},
}

const fleetNamespace = "flux-system"

// newFleet bootstraps a cluster by the repository, as `flux bootstrap` does: the namespace, the key, and what gotk-sync.yaml has.
func newFleet(t *testing.T, files map[string]string) *scenario {
	t.Helper()
	s := &scenario{t: t, namespace: fleetNamespace}
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}})
	t.Cleanup(func() { removeFleet(t) })
	key, err := os.ReadFile(fleetDir + ".agekey")
	if err != nil {
		t.Fatal(err)
	}
	create(t, s.secret("sops-age", "age.agekey", string(key)))
	sync, err := ssautils.ReadObjects(strings.NewReader(files["clusters/production/flux-system/gotk-sync.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range sync {
		create(t, object)
	}
	return s
}

// removeFleet takes away what the test made, so that it can run again on the same cluster.
func removeFleet(t *testing.T) {
	releaseAll(t, fleetNamespace)
	// The test's own context has ended by now.
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, left := range fleetLeftovers {
		object := objectOf(left.apiVersion, left.kind, left.name)
		if err := client.IgnoreNotFound(kube.Delete(ctx, object)); err != nil {
			t.Errorf("delete %s %s: %v", left.kind, left.name, err)
		}
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for _, left := range fleetLeftovers {
		object := objectOf(left.apiVersion, left.kind, left.name)
		for !apierrors.IsNotFound(kube.Get(ctx, client.ObjectKeyFromObject(object), object)) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				t.Errorf("%s %s does not go: %v", left.kind, left.name, object.Object["status"])
				return
			}
		}
	}
}

func objectOf(apiVersion, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetName(name)
	return object
}

// publish offers the repository as source-controller does.
func (s *scenario) publish(flux *sourceController, revision string, files map[string]string) {
	s.t.Helper()
	source := &sourcev1.GitRepository{}
	if err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "flux-system"}, source); err != nil {
		s.t.Fatal(err)
	}
	patch := client.MergeFrom(source.DeepCopy())
	source.Status.Artifact = flux.store("/"+strings.ReplaceAll(revision, ":", "-")+".tar.gz", revision, files)
	source.Status.ObservedGeneration = source.Generation
	meta.SetStatusCondition(&source.Status.Conditions, metav1.Condition{Type: fluxmeta.ReadyCondition, Status: metav1.ConditionTrue,
		Reason: "Succeeded", Message: "stored artifact for revision '" + revision + "'", ObservedGeneration: source.Generation})
	if err := kube.Status().Patch(s.t.Context(), source, patch); err != nil {
		s.t.Fatal(err)
	}
}

// TestFleet: a repository of the usual layout that was written for Flux, and bootstrapped by it, becomes Ready as it is, from the
// Kustomization that manages itself to the applications, and goes on to its next revision. Flux itself, which is part of it, is not
// started, and its definition does not take the place of holdfast's.
func TestFleet(t *testing.T) {
	t.Parallel()
	// One after the other, since the names in the repository are what they are.
	t.Run("beside source-controller", fleetBeside)
	t.Run("alone", fleetAlone)
}

// fleetKustomizations are the Kustomizations of the repository.
var fleetKustomizations = []string{"flux-system", "infra-controllers", "infra-configs", "apps"}

// fleetAlone has holdfast fetch the repository, so that only its URL is another one.
func fleetAlone(t *testing.T) {
	files := fleetFiles(t)
	git := gitserver.New(t.TempDir())
	if err := git.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = git.Close() })
	if err := git.CreateRepository(repoName); err != nil {
		t.Fatal(err)
	}
	const sync = "clusters/production/flux-system/gotk-sync.yaml"
	files[sync] = replaceOnce(files[sync], "ssh://git@git.example/platform/fleet", git.URL(repoName))
	files[sync] = replaceOnce(files[sync], "  secretRef:\n    name: flux-system\n", "")
	s := newFleet(t, files)
	s.git = git
	rev := s.push(files)
	s.checkConformance()
	runHoldfast(t, s.namespace)
	for _, name := range fleetKustomizations {
		s.awaitReady(name, rev)
	}
	s.checkFleet("200")
	s.awaitMessage("flux-system", v1.RivalSkippedCondition, metav1.ConditionTrue, v1.ReasonRivalSkipped, "Deployment/flux-system/source-controller")
	for _, name := range []string{"kustomize-controller", "source-controller"} {
		if err := isGone(t.Context(), s.deploymentOf(name)); err != nil {
			t.Error(err)
		}
	}
	s.stays(s.deploymentOf("notification-controller"))
	checkDefinition(t)
}

// fleetBeside has the repository published to the last byte.
func fleetBeside(t *testing.T) {
	files := fleetFiles(t)
	s := newFleet(t, files)
	s.checkConformance()
	runHoldfast(t, s.namespace, besideFlux)
	flux := newSourceController(t)
	const first, second = "main@sha1:1f0c9d2", "main@sha1:8be41a7"
	s.publish(flux, first, files)
	for _, name := range fleetKustomizations {
		s.awaitReady(name, first)
	}
	s.checkFleet("200")
	system := s.awaitMessage("flux-system", v1.RivalSkippedCondition, metav1.ConditionTrue, v1.ReasonRivalSkipped,
		"Deployment/flux-system/kustomize-controller", "CustomResourceDefinition/kustomizations.kustomize.toolkit.fluxcd.io")
	if err := errors.Join(inInventory(system, s.id("kustomize.toolkit.fluxcd.io/Kustomization", "flux-system"), s.id("apps/Deployment", "kustomize-controller")),
		isGone(t.Context(), s.deploymentOf("kustomize-controller"))); err != nil {
		t.Error(err)
	}
	if system.Labels[v1.OwnerNameLabel] != "flux-system" {
		t.Errorf("the Kustomization that manages itself has labels %v", system.Labels)
	}
	for _, name := range []string{"source-controller", "notification-controller"} {
		s.stays(s.deploymentOf(name))
	}
	checkDefinition(t)

	config := s.generatedIn("shop", "web-config-")
	files["apps/production/limits.toml"] = "requests = 300\n"
	s.publish(flux, second, files)
	for _, name := range fleetKustomizations {
		s.awaitReady(name, second)
	}
	s.checkFleet("300")
	eventuallyGone(t, within, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: config}})
	for _, name := range fleetKustomizations {
		s.await(name, "keeping nothing", func(ks *v1.Kustomization) error {
			if ks.Status.Rollout.RetainedCount > 0 {
				return fmt.Errorf("it keeps %v", ks.Status.Rollout.Retained)
			}
			return nil
		})
	}
	s.noEventHas("apps", "correct-horse")
}

// generatedIn returns the name of the one ConfigMap with a prefix that a live Deployment "web" of a namespace has mounted.
func (s *scenario) generatedIn(namespace, prefix string) string {
	s.t.Helper()
	in := &scenario{t: s.t, namespace: namespace}
	web, err := in.getDeployment(s.t.Context(), "web")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, volume := range web.Spec.Template.Spec.Volumes {
		if volume.ConfigMap != nil && strings.HasPrefix(volume.ConfigMap.Name, prefix) {
			return volume.ConfigMap.Name
		}
	}
	s.t.Fatalf("Deployment web mounts %v", web.Spec.Template.Spec.Volumes)
	return ""
}

// checkFleet checks what the fields of the Kustomizations and the files of the repository make of the applications.
func (s *scenario) checkFleet(requests string) {
	s.t.Helper()
	shop := &scenario{t: s.t, namespace: "shop"}
	web, err := shop.getDeployment(s.t.Context(), "web")
	if err != nil {
		s.t.Fatal(err)
	}
	pod := web.Spec.Template.Spec
	checks := map[string]bool{
		"image of the spec":        pod.Containers[0].Image == "registry.example/shop/web:2.4.1",
		"patch of the overlay":     pod.Containers[0].Resources.Requests.Cpu().String() == "10m",
		"patch of the spec":        pod.EnableServiceLinks != nil && !*pod.EnableServiceLinks,
		"component of the overlay": web.Spec.Template.Annotations["prometheus.io/scrape"] == "true",
		"common metadata":          web.Labels["fleet.example.com/cluster"] == "production",
	}
	config := shop.configMap(s.generatedIn("shop", "web-config-"))
	checks["variable with a value of the spec"] = strings.Contains(config.Data["web.toml"], `level = "info"`)
	checks["merged file"] = config.Data["limits.toml"] == "requests = "+requests+"\n"
	var env, auth corev1.Secret
	var ingress networkingv1.Ingress
	cache := objectOf("fleet.example.com/v1", "Cache", "shared")
	var errs []error
	for key, object := range map[client.ObjectKey]client.Object{
		{Namespace: "shop", Name: pod.Containers[0].EnvFrom[0].SecretRef.Name}: &env,
		{Namespace: "shop", Name: "redis-auth"}:                                &auth,
		{Namespace: "shop", Name: "web"}:                                       &ingress,
		{Namespace: "cache-system", Name: "shared"}:                            cache,
	} {
		if err := kube.Get(s.t.Context(), key, object); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
	size, _, _ := unstructured.NestedInt64(cache.Object, "spec", "size")
	checks["encrypted env file"] = string(env.Data["SESSION_KEY"]) == "battery-staple"
	checks["encrypted Secret"] = string(auth.Data["REDIS_PASSWORD"]) == "correct-horse"
	checks["variable of a ConfigMap"] = ingress.Spec.Rules[0].Host == "www.shop.example"
	checks["number in a custom resource"] = size == 3
	checks["component of the spec"] = kube.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &policyv1.PodDisruptionBudget{}) == nil
	for what, ok := range checks {
		if !ok {
			s.t.Errorf("%s has no effect", what)
		}
	}
}
