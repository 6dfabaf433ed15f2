package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/install"
)

// refusals sees which requests of the controller itself the API server refuses for want of a right.
type refusals struct {
	mu  sync.Mutex
	all []string
}

// watch wraps the connections of a configuration.
func (r *refusals) watch(config *rest.Config) {
	config.Wrap(func(on http.RoundTripper) http.RoundTripper {
		return roundTrip(func(request *http.Request) (*http.Response, error) {
			response, err := on.RoundTrip(request)
			if err == nil && response.StatusCode == http.StatusForbidden && request.Header.Get("Impersonate-User") == "" {
				r.mu.Lock()
				r.all = append(r.all, request.Method+" "+request.URL.Path)
				r.mu.Unlock()
			}
			return response, err
		})
	})
}

func (r *refusals) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// forget drops what was seen until now.
func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

// installed is an installation without the controller's pod; the returned configuration has the token of its account, and nothing else.
func (s *scenario) installed(profile string) (*rest.Config, *refusals) {
	s.t.Helper()
	objects, err := install.Objects(install.Options{Namespace: s.namespace, Profile: profile, Version: "v1.2.3", Image: "holdfast:missing"})
	if err != nil {
		s.t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return slices.Contains([]string{"CustomResourceDefinition", "Namespace", "Deployment", "NetworkPolicy"}, o.GetKind())
	})
	s.t.Cleanup(func() { uninstall(s.t, objects) })
	for range 2 { // and once more, as an upgrade does
		if err := install.Apply(s.t.Context(), env.Config, objects, install.ApplyOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := kube.SubResource("token").Create(s.t.Context(), s.account("holdfast"), request); err != nil {
		s.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = request.Status.Token
	s.awaitOwnRights(config)
	seen := &refusals{}
	seen.watch(config)
	return config, seen
}

// awaitOwnRights waits until the rights of the installation are in force, those that are put together from others last.
func (s *scenario) awaitOwnRights(config *rest.Config) {
	s.t.Helper()
	own, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, within, "the rights are in force", func(ctx context.Context) error {
		for _, list := range []client.ObjectList{&v1.KustomizationList{}, &corev1.PodList{}, &rbacv1.ClusterRoleList{}} {
			if err := own.List(ctx, list, client.Limit(1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// runWith runs the controllers with the rights of a configuration.
func (s *scenario) runWith(config *rest.Config, changes ...func(*app.Options)) {
	s.t.Helper()
	options := testOptions(s.t, s.namespace)
	options.LeaderElection.Enable = true
	for _, change := range changes {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &holdfast{cancel: cancel, done: make(chan error, 1)}
	go func() { h.done <- app.Run(ctx, config, options) }()
	s.t.Cleanup(func() { h.stop(s.t) })
}

// mainJob is a release that breaks, is rolled back, and is repaired; then the Kustomization goes with all that it made.
func (s *scenario) mainJob(changes ...func(*v1.Kustomization)) {
	s.t.Helper()
	rollback := func(ks *v1.Kustomization) { ks.Spec.Rollout = &v1.RolloutPolicy{OnFailure: v1.OnFailureRollback} }
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", append(changes, rollback)...)
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	files := webApp("2", missingImage)
	files["web.yaml"] = broken("web", "\n        envFrom:\n        - configMapRef: {name: app}")
	s.push(files)
	s.awaitMessage("web", "Ready", metav1.ConditionFalse, v1.ReasonRolledBack)
	s.stays(s.cm(first.Name))
	r3 := s.push(webApp("3", goodImage))
	s.awaitReady("web", r3)
	eventuallyGone(s.t, within, s.cm(first.Name))
	s.awaitEvent("web", "Normal", "ReconciliationSucceeded", "Reconciliation finished in ")
	ks := s.mustGet("web")
	if err := kube.Delete(s.t.Context(), ks); err != nil {
		s.t.Fatal(err)
	}
	eventuallyGone(s.t, within, ks)
	eventuallyGone(s.t, within, s.deploymentOf("web"))
}

// The profile "flux" does the main job with the token of its own account.
func TestProfileFlux(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	config, refused := s.installed(install.ProfileFlux)
	s.runWith(config)
	s.mainJob()
	if all := refused.list(); len(all) > 0 {
		t.Errorf("rights are missing: %v", all)
	}
}

// The profile "least" does the main job with the token of its own account, which may write none of it: the account of the Kustomization
// does. One that names no account works as "default", and what that may not do is not done.
func TestProfileLeast(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	config, refused := s.installed(install.ProfileLeast)
	create(t, s.account("deployer"), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "deployer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: "deployer"}},
	})
	s.awaitRight("deployer", s.namespace, "get")
	s.checkWritesNothing(config)
	refused.forget()
	s.runWith(config, func(o *app.Options) {
		o.Kustomization.DefaultServiceAccount, o.Kustomization.NoCrossNamespaceRefs, o.Kustomization.NoRemoteBases = "default", true, true
	})
	s.mainJob(as("deployer"))

	s.push(map[string]string{"c.yaml": configMap("c", "1")})
	s.deploy("nobody")
	s.awaitMessage("nobody", "Ready", metav1.ConditionFalse, "ReconciliationFailed", s.userOf("default"), "forbidden")
	if err := isGone(t.Context(), s.cm("c")); err != nil {
		t.Error(err)
	}
	if all := refused.list(); len(all) > 0 {
		t.Errorf("rights are missing: %v", all)
	}
}

// checkWritesNothing fails the test if an account may itself write what Git may ask for.
func (s *scenario) checkWritesNothing(config *rest.Config) {
	s.t.Helper()
	own, err := client.New(rest.CopyConfig(config), client.Options{Scheme: kube.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	deployment := s.deploymentOf("web")
	for _, object := range []client.Object{s.cm("mine"), deployment, s.account("mine"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "mine"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}} {
		if err := own.Create(s.t.Context(), object, client.DryRunAll); !apierrors.IsForbidden(err) {
			s.t.Errorf("create %T: %v, want it to be forbidden", object, err)
		}
		if err := own.Delete(s.t.Context(), object, client.DryRunAll); !apierrors.IsForbidden(err) {
			s.t.Errorf("delete %T: %v, want it to be forbidden", object, err)
		}
	}
	var token authenticationv1.TokenRequest
	if err := own.SubResource("token").Create(s.t.Context(), s.account("default"), &token); !apierrors.IsForbidden(err) {
		s.t.Error(fmt.Errorf("create a token: %w, want it to be forbidden", err))
	}
}
