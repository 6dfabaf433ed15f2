package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/testkit/gitserver"
)

// scenario is a Git repository, a GitRepository that follows its branch main, and a namespace to deploy to.
type scenario struct {
	t         *testing.T
	namespace string
	git       *gitserver.Server
}

// The names of the repository and of the source in every scenario.
const (
	repoName   = "app"
	sourceName = "app"
)

// newScenario starts a Git server and creates the source. The controllers are up to the test.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	s := &scenario{t: t, namespace: newNamespace(t), git: gitserver.New(t.TempDir())}
	t.Cleanup(func() { releaseAll(t, s.namespace) })
	if err := s.git.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.git.Close() })
	if err := s.git.CreateRepository(repoName); err != nil {
		t.Fatal(err)
	}
	return s
}

// follow creates the GitRepository. It is checked every second, so that a push needs no webhook.
func (s *scenario) follow() {
	s.t.Helper()
	create(s.t, &sourcev1.GitRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: sourceName},
		Spec: sourcev1.GitRepositorySpec{
			URL:       s.git.URL(repoName),
			Reference: &sourcev1.GitRepositoryRef{Branch: "main"},
			Interval:  metav1.Duration{Duration: time.Second},
		},
	})
}

// push replaces the tree of the branch main and returns the revision.
func (s *scenario) push(files map[string]string) string {
	s.t.Helper()
	sha, err := s.git.CommitTree(repoName, "main", files, "change")
	if err != nil {
		s.t.Fatalf("push: %v", err)
	}
	return "main@sha1:" + sha
}

// deploy creates a Kustomization of the source's root into the scenario's namespace, waiting for health.
func (s *scenario) deploy(name string, changes ...func(*v1.Kustomization)) *v1.Kustomization {
	s.t.Helper()
	ks := &v1.Kustomization{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: v1.KustomizationSpec{KustomizationSpec: fluxv1.KustomizationSpec{
			Interval:        metav1.Duration{Duration: 10 * time.Minute},
			RetryInterval:   &metav1.Duration{Duration: 2 * time.Second},
			Timeout:         &metav1.Duration{Duration: 10 * time.Minute},
			Prune:           true,
			Wait:            true,
			TargetNamespace: s.namespace,
			SourceRef:       fluxv1.CrossNamespaceSourceReference{Kind: sourcev1.GitRepositoryKind, Name: sourceName},
		}},
	}
	for _, change := range changes {
		change(ks)
	}
	create(s.t, ks)
	return ks
}

// get reads a Kustomization.
func (s *scenario) get(ctx context.Context, name string) (*v1.Kustomization, error) {
	ks := &v1.Kustomization{}
	return ks, kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, ks)
}

// mustGet reads a Kustomization that exists.
func (s *scenario) mustGet(name string) *v1.Kustomization {
	s.t.Helper()
	ks, err := s.get(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return ks
}

// within is how long a test waits for what should take seconds. A machine that is shared may need minutes for it, and a test that
// passes waits no longer for that. It is shorter than the timeouts and intervals that are not to come within a test.
const within = 4 * time.Minute

// awaitReady waits until a Kustomization is Ready at a revision.
func (s *scenario) awaitReady(name, revision string) *v1.Kustomization {
	s.t.Helper()
	return s.await(name, "Ready at "+revision, func(ks *v1.Kustomization) error {
		if err := conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue); err != nil {
			return err
		}
		if got := ks.Status.LastAppliedRevision; got != revision {
			return fmt.Errorf("applied revision is %s", got)
		}
		if ks.Status.ObservedGeneration != ks.Generation {
			return fmt.Errorf("observed generation is %d of %d", ks.Status.ObservedGeneration, ks.Generation)
		}
		return nil
	})
}

// awaitCondition waits until a condition has a status and a reason, and returns its message.
func (s *scenario) awaitCondition(name, kind string, status metav1.ConditionStatus, reason string) string {
	s.t.Helper()
	ks := s.await(name, fmt.Sprintf("%s=%s %s", kind, status, reason), func(ks *v1.Kustomization) error {
		c := meta.FindStatusCondition(ks.Status.Conditions, kind)
		if c == nil {
			return fmt.Errorf("there is no condition %s", kind)
		}
		if c.Status != status || c.Reason != reason {
			return fmt.Errorf("it is %s %s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
	return meta.FindStatusCondition(ks.Status.Conditions, kind).Message
}

// await waits until a Kustomization passes a check, and returns it.
func (s *scenario) await(name, what string, check func(*v1.Kustomization) error) *v1.Kustomization {
	s.t.Helper()
	var ks *v1.Kustomization
	eventually(s.t, within, "Kustomization "+name+" is "+what, func(ctx context.Context) (err error) {
		if ks, err = s.get(ctx, name); err != nil {
			return err
		}
		return check(ks)
	})
	return ks
}

// awaitAttempt waits until a revision was tried.
func (s *scenario) awaitAttempt(name, revision string) {
	s.t.Helper()
	s.await(name, "attempting "+revision, func(ks *v1.Kustomization) error {
		if ks.Status.LastAttemptedRevision != revision {
			return fmt.Errorf("last attempt is %s", ks.Status.LastAttemptedRevision)
		}
		return nil
	})
}

// configMaps returns the ConfigMaps of the scenario's namespace whose name has a prefix, by their value of key k.
func (s *scenario) configMaps(ctx context.Context, prefix string) (map[string]corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	if err := kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	found := map[string]corev1.ConfigMap{}
	for _, cm := range list.Items {
		if strings.HasPrefix(cm.Name, prefix) {
			found[cm.Data["k"]] = cm
		}
	}
	return found, nil
}

// readyPods returns the pods of the scenario's namespace that are ready, by name.
func (s *scenario) readyPods(ctx context.Context) (map[string]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := kube.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	ready := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready[pod.Name] = pod
			}
		}
	}
	return ready, nil
}

// retainedBecause returns the reason for which status keeps an object, empty if it does not.
func retainedBecause(ks *v1.Kustomization, id string) v1.RetentionReason {
	if ks.Status.Rollout == nil {
		return ""
	}
	for _, r := range ks.Status.Rollout.Retained {
		if r.ID == id {
			return r.Reason
		}
	}
	return ""
}

// inventoryIDs returns the ids in the inventory.
func inventoryIDs(ks *v1.Kustomization) map[string]bool {
	ids := map[string]bool{}
	if ks.Status.Inventory != nil {
		for _, e := range ks.Status.Inventory.Entries {
			ids[e.ID] = true
		}
	}
	return ids
}

// The images that the simulated runtime knows.
const (
	goodImage    = "registry.example/web:1"
	missingImage = "registry.example/web:missing"
	crashImage   = "registry.example/web:crash"
)

// webApp is a Deployment "web" with a generated ConfigMap "app" whose key k it takes its environment from.
func webApp(value, image string) map[string]string {
	return map[string]string{
		"kustomization.yaml": fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [web.yaml]
configMapGenerator:
- name: app
  literals: [k=%s]
`, value),
		"web.yaml": deployment("web", image, `
        envFrom:
        - configMapRef: {name: app}`),
	}
}

// deployment is the manifest of a Deployment with two replicas; more is added to its container.
func deployment(name, image, more string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: %[2]s%[3]s
`, name, image, more)
}

// configMap is the manifest of a ConfigMap with the one key k.
func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {k: %q}\n", name, value)
}

// getDeployment reads a Deployment of the scenario's namespace.
func (s *scenario) getDeployment(ctx context.Context, name string) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	return d, kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, d)
}
