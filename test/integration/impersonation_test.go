package integration

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/target"
)

// as makes an account work for a Kustomization.
func as(account string) func(*v1.Kustomization) {
	return func(ks *v1.Kustomization) { ks.Spec.ServiceAccountName = account }
}

// userOf is an account of the scenario's namespace as the API server names it.
func (s *scenario) userOf(account string) string {
	return `"` + target.User(types.NamespacedName{Namespace: s.namespace, Name: account}) + `"`
}

func (s *scenario) account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// grant creates an account of the scenario's namespace, if it is not there, and gives it verbs on ConfigMaps in a namespace.
func (s *scenario) grant(account, namespace string, verbs ...string) *rbacv1.RoleBinding {
	s.t.Helper()
	if err := kube.Create(s.t.Context(), s.account(account)); client.IgnoreAlreadyExists(err) != nil {
		s.t.Fatal(err)
	}
	name := uniqueName(account)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: account}}}
	create(s.t, role, binding)
	s.awaitRight(account, namespace, verbs[0])
	return binding
}

// awaitRight waits until the API server knows a right on ConfigMaps.
func (s *scenario) awaitRight(account, namespace, verb string) {
	s.t.Helper()
	if verb != "get" && verb != "*" {
		s.t.Fatalf("no way to see the right to %s", verb)
	}
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: strings.Trim(s.userOf(account), `"`)}
	limited, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, within, "the rights are in force", func(ctx context.Context) error {
		return client.IgnoreNotFound(limited.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "none"}, &corev1.ConfigMap{}))
	})
}

// revoke takes rights away.
func (s *scenario) revoke(account string, binding *rbacv1.RoleBinding) {
	s.t.Helper()
	if err := kube.Delete(s.t.Context(), binding); err != nil {
		s.t.Fatal(err)
	}
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: strings.Trim(s.userOf(account), `"`)}
	limited, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, within, "the rights are gone", func(ctx context.Context) error {
		if err := limited.Get(ctx, client.ObjectKey{Namespace: binding.Namespace, Name: "none"}, &corev1.ConfigMap{}); client.IgnoreNotFound(err) == nil {
			return errors.New("they are still in force")
		}
		return nil
	})
}

// wire sees every request of the controllers, and may answer some itself.
type wire struct {
	mu     sync.Mutex
	strays []string
	asked  int
	fails  string
}

// aConfigMap is a request for one ConfigMap by name.
var aConfigMap = regexp.MustCompile(`/api/v1/namespaces/[^/]+/configmaps/[^/]+$`)

// pass notes requests about managed objects that are not made as an account.
func (w *wire) pass(on http.RoundTripper, r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	if aConfigMap.MatchString(r.URL.Path) {
		w.asked++
		if r.Header.Get("Impersonate-User") == "" {
			w.strays = append(w.strays, r.Method+" "+r.URL.Path)
		}
	}
	fails := w.fails != "" && strings.HasSuffix(r.URL.Path, w.fails)
	w.mu.Unlock()
	if fails {
		return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
	}
	return on.RoundTrip(r)
}

func (w *wire) fail(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = path
}

// check fails the test if a managed object was touched with the controller's own rights.
func (w *wire) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.strays) > 0 {
		t.Errorf("requests with the controller's own rights: %v", w.strays)
	}
	if w.asked == 0 {
		t.Error("no request was seen: the test shows nothing")
	}
}

// tap runs the controllers through a wire.
func (s *scenario) tap(changes ...func(*app.Options)) *wire {
	s.t.Helper()
	w := &wire{}
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) { return w.pass(base, r) })
	})
	options := testOptions(s.t, s.namespace)
	for _, change := range changes {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &holdfast{cancel: cancel, done: make(chan error, 1)}
	go func() { h.done <- app.Run(ctx, config, options) }()
	s.t.Cleanup(func() { h.stop(s.t) })
	return w
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestImpersonation, P158: nothing is applied, read or pruned with other rights than those of the account; what it lacks is
// said, with its name. A fallback to the controller's own rights, which are all rights here, would be seen on the wire.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	w := s.tap()
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	create(t, s.account("tenant"))
	s.deploy("app", as("tenant"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("tenant")+" cannot get")
	if err := s.gone(t.Context(), "a", "b"); err != nil {
		t.Error(err)
	}

	binding := s.grant("tenant", s.namespace, "*")
	s.awaitReady("app", r1)
	s.stays(s.cm("a"), s.cm("b"))

	s.revoke("tenant", binding)
	s.push(map[string]string{"b.yaml": configMap("b", "1")})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("tenant")+" cannot")
	s.request("app")
	s.stays(s.cm("a"), s.cm("b"))

	// What may be read and written, and not deleted, is not pruned either.
	s.grant("tenant", s.namespace, "get", "list", "watch", "create", "patch", "update")
	s.awaitRetained("app", s.cmID("a"), v1.RetainedDeleteFailed)
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "PruneFailed", "User "+s.userOf("tenant")+" cannot delete")
	s.stays(s.cm("a"), s.cm("b"))

	s.grant("tenant", s.namespace, "*")
	eventuallyGone(t, within, s.cm("a"))
	w.check(t) // P123: nor was the health of what spec.wait waits for read otherwise
}

// TestImpersonationOfAnother, P158: an account works only where its rights are, and another account's success is not its own.
func TestImpersonationOfAnother(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	w := s.tap()
	r1 := s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "b/b.yaml": configMap("b", "1")})
	s.follow()
	s.grant("able", s.namespace, "*")
	create(t, s.account("unable"))
	s.deploy("a", at("./a"), as("able"))
	s.awaitReady("a", r1)
	s.deploy("b", at("./b"), as("unable"))
	s.awaitMessage("b", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("unable"))
	// The same Kustomization, with an account that may nothing any more: what was applied before counts for nothing.
	s.change("a", as("unable"))
	s.awaitMessage("a", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("unable"))
	w.check(t)
}

// TestDefaultServiceAccount, P159: it works for whoever names none.
func TestDefaultServiceAccount(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	w := s.tap(func(o *app.Options) { o.Kustomization.DefaultServiceAccount = "nobody" })
	r1 := s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "b/b.yaml": configMap("b", "1")})
	s.follow()
	s.grant("able", s.namespace, "*")
	s.deploy("a", at("./a"))
	s.deploy("b", at("./b"), as("able"))
	s.awaitReady("b", r1)
	s.awaitMessage("a", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "User "+s.userOf("nobody"))
	w.check(t)
}

// appliedAs deploys one ConfigMap as an account, and deletes what the account needs, if anything, and then the Kustomization.
func (s *scenario) appliedAs(account, namespace string) *v1.Kustomization {
	s.t.Helper()
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app", as(account), func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = namespace })
	return s.awaitReady("app", r1)
}

// TestC27MissingAccount, P155: the account was deleted before the Kustomization. Nobody else may delete its objects.
func TestC27MissingAccount(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	w := s.tap()
	s.grant("deployer", s.namespace, "*")
	ks := s.appliedAs("deployer", s.namespace)
	if err := kube.Delete(t.Context(), s.account("deployer")); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	s.awaitEvent("app", "Warning", "ReconciliationFailed", "unable to prune objects:", "ConfigMap/"+s.namespace+"/a", "deployer does not exist")
	s.stays(s.cm("a"))
	w.check(t)
}

// TestC27UnreadableAccount: an account that can't be read may well exist.
func TestC27UnreadableAccount(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	w := s.tap()
	s.grant("deployer", s.namespace, "*")
	ks := s.appliedAs("deployer", s.namespace)
	w.fail("/serviceaccounts/deployer")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "deletion waits", "read ServiceAccount/"+s.namespace+"/deployer")
	s.stays(s.cm("a"))
	w.fail("")
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("a"))
	w.check(t)
}

// TestC27MissingRights: the account is there, its RoleBinding is not. That is told and tried again.
func TestC27MissingRights(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	w := s.tap()
	binding := s.grant("deployer", s.namespace, "*")
	ks := s.appliedAs("deployer", s.namespace)
	s.revoke("deployer", binding)
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	s.awaitMessage("app", "Ready", metav1.ConditionUnknown, "Progressing", "ConfigMap/"+s.namespace+"/a (Unverified", "User "+s.userOf("deployer")+" cannot get")
	s.grant("deployer", s.namespace, "get", "list")
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "PruneFailed", "pruning for deleted resource failed", "User "+s.userOf("deployer")+" cannot delete")
	s.stays(s.cm("a"))
	s.grant("deployer", s.namespace, "*")
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, s.cm("a"))
	w.check(t)
}

// TestC27TerminatingNamespace: with its namespace the account loses its rights for good, so that nothing is waited for.
func TestC27TerminatingNamespace(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	w := s.tap()
	other := newNamespace(t)
	binding := s.grant("deployer", other, "*")
	ks := s.appliedAs("deployer", other)
	// The account itself outlives the Kustomization here, so that it is not its absence that is seen.
	hold := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	account := s.account("deployer")
	if err := kube.Patch(t.Context(), account, hold); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := kube.Patch(context.Background(), account, free); err != nil {
			t.Error(err)
		}
	})
	s.revoke("deployer", binding)
	if err := kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "a"}}
	s.stays(left)
	w.check(t)
}
