package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// kill -9 at each phase, and a restart: the same end state, nothing orphaned. A webhook holds the write that a phase is
// about until the process is dead.
func TestKilledAtEachPhase(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	gate := s.newGate()
	h := startProcess(t, s.namespace, env.Kubeconfig)
	revision := s.push(webApp("0", goodImage))
	s.follow()
	s.deploy("web")
	s.awaitReady("web", revision)
	phases := []struct {
		name string
		hold func(*admissionapi.AdmissionRequest) bool
	}{
		{"Record", func(r *admissionapi.AdmissionRequest) bool {
			return r.SubResource == "status" && r.Operation == admissionapi.Update
		}},
		{"Apply", func(r *admissionapi.AdmissionRequest) bool {
			return r.Resource.Resource == "configmaps" && r.Operation == admissionapi.Create
		}},
		{"Apply, second write", func(r *admissionapi.AdmissionRequest) bool {
			return r.Resource.Resource == "deployments" && r.Operation == admissionapi.Update
		}},
		{"Verify", nil},
		{"Prune", func(r *admissionapi.AdmissionRequest) bool {
			return r.Resource.Resource == "configmaps" && r.Operation == admissionapi.Delete
		}},
	}
	for i, phase := range phases {
		value := strconv.Itoa(i + 1)
		if phase.hold != nil {
			gate.holdNext(phase.hold)
		}
		revision = s.push(webApp(value, goodImage))
		if phase.hold != nil {
			gate.awaitHeld(phase.name)
		} else {
			s.await("web", "verifying", func(ks *v1.Kustomization) error {
				if ks.Status.LastAttemptedRevision != revision {
					return fmt.Errorf("attempted is %s", ks.Status.LastAttemptedRevision)
				}
				return phaseIs(v1.PhaseVerifying)(ks)
			})
		}
		h.kill()
		gate.release()
		s.noOrphan(phase.name)
		h = startProcess(t, s.namespace, env.Kubeconfig)
		s.endsAs(phase.name, revision, value)
	}

	// And while the Kustomization itself is deleted.
	last := s.onlyConfigMap(strconv.Itoa(len(phases)))
	gate.holdNext(func(r *admissionapi.AdmissionRequest) bool {
		return r.Resource.Resource == "configmaps" && r.Operation == admissionapi.Delete
	})
	ks := s.mustGet("web")
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	gate.awaitHeld("deletion")
	h.kill()
	gate.release()
	s.mustGet("web")
	startProcess(t, s.namespace, env.Kubeconfig)
	eventuallyGone(t, within, ks)
	eventuallyGone(t, within, &last)
	eventuallyGone(t, within, s.deploymentOf("web"))
}

// TestC04KilledBetweenTwoWrites: the controller dies when it has created the first objects of a revision, and the next
// revision no longer has them.
func TestC04KilledBetweenTwoWrites(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	gate := s.newGate()
	h := startProcess(t, s.namespace, env.Kubeconfig)
	gate.holdNext(func(r *admissionapi.AdmissionRequest) bool {
		return r.Resource.Resource == "configmaps" && r.Operation == admissionapi.Create && r.Name == "b"
	})
	s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1")})
	s.follow()
	s.deploy("app")
	gate.awaitHeld("the second write")
	h.kill()
	gate.release()
	s.stays(s.cm("a"))
	s.noOrphan("between two writes")
	r2 := s.push(map[string]string{"d.yaml": configMap("d", "1")})
	startProcess(t, s.namespace, env.Kubeconfig)
	s.awaitReady("app", r2)
	for _, name := range []string{"a", "b", "c"} {
		eventuallyGone(t, within, s.cm(name))
		s.awaitDropped("app", s.cmID(name))
	}
}

// The same at random moments. HOLDFAST_TEST_SEED repeats a run.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("HOLDFAST_TEST_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("HOLDFAST_TEST_SEED: %v", err)
		}
	}
	t.Logf("HOLDFAST_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newScenario(t)
	h := startProcess(t, s.namespace, env.Kubeconfig)
	revision := s.push(webApp("0", goodImage))
	s.follow()
	s.deploy("web")
	s.awaitReady("web", revision)
	const kills = 6
	for i := range kills {
		revision = s.push(webApp(strconv.Itoa(i+1), goodImage))
		moment := time.Duration(random.Int64N(int64(4 * time.Second)))
		// The moment is what is tested; there is no condition to await.
		time.Sleep(moment)
		h.kill()
		s.noOrphan(fmt.Sprintf("kill %d, after %s", i, moment))
		h = startProcess(t, s.namespace, env.Kubeconfig)
	}
	s.endsAs("random kills", revision, strconv.Itoa(kills))
}

// noOrphan fails the test if an object carries our labels and is not in the inventory.
func (s *scenario) noOrphan(when string) {
	s.t.Helper()
	list := &corev1.ConfigMapList{}
	if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace), client.HasLabels{v1.OwnerNameLabel}); err != nil {
		s.t.Fatal(err)
	}
	for _, cm := range list.Items {
		if err := inInventory(s.mustGet(cm.Labels[v1.OwnerNameLabel]), inventoryID(cm)); err != nil {
			s.t.Errorf("%s: an orphan: %v", when, err)
		}
	}
}

// endsAs waits for the end state of a rollout of webApp: one ConfigMap, and an inventory of it and the Deployment.
func (s *scenario) endsAs(when, revision, value string) {
	s.t.Helper()
	s.awaitReady("web", revision)
	s.await("web", "as after a rollout that nothing cut off ("+when+")", func(ks *v1.Kustomization) error {
		if err := s.onlyConfigMapIs(s.t.Context(), value); err != nil {
			return err
		}
		if err := inInventory(ks, inventoryID(s.configMapOf(value)), s.id("apps/Deployment", "web")); err != nil {
			return err
		}
		if n := len(inventoryIDs(ks)); n != 2 || len(ks.Status.Rollout.Retained) != 0 {
			return fmt.Errorf("the inventory is %v, retained are %v", inventoryIDs(ks), ks.Status.Rollout.Retained)
		}
		return nil
	})
	s.noOrphan(when)
}

// gate is an admission webhook that can hold a write.
type gate struct {
	s      *scenario
	mu     sync.Mutex
	wanted func(*admissionapi.AdmissionRequest) bool
	held   chan struct{}
	open   chan struct{}
}

// newGate registers the webhook for what is written in the scenario's namespace.
func (s *scenario) newGate() *gate {
	s.t.Helper()
	g := &gate{s: s}
	server := httptest.NewTLSServer(g)
	s.t.Cleanup(server.Close)
	s.t.Cleanup(g.release)
	rule := func(group, version string, resources ...string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources},
		}
	}
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: uniqueName("gate")},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "gate.holdfast.dev",
			ClientConfig: admissionv1.WebhookClientConfig{
				URL:      ptr.To(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionv1.RuleWithOperations{
				rule("", "v1", "configmaps", "serviceaccounts"), rule("apps", "v1", "deployments"),
				rule("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "kustomizations/status"),
				rule("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
			},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
			SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](30),
			FailurePolicy:           ptr.To(admissionv1.Ignore),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	create(s.t, hook)
	s.t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := client.IgnoreNotFound(kube.Delete(context.Background(), hook)); err != nil {
			s.t.Errorf("remove the webhook: %v", err)
		}
	})
	g.holdNext(func(r *admissionapi.AdmissionRequest) bool { return r.Name == "probe" })
	probe := s.cm("probe")
	eventually(s.t, within, "the webhook is asked", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_ = kube.Create(ctx, probe.DeepCopy(), client.FieldOwner("probe")) // the answer does not matter, only who is asked
		select {
		case <-g.held:
			return nil
		default:
			_ = kube.Delete(context.WithoutCancel(ctx), probe.DeepCopy())
			return fmt.Errorf("it was not")
		}
	})
	g.release()
	if err := client.IgnoreNotFound(kube.Delete(s.t.Context(), probe)); err != nil {
		s.t.Fatal(err)
	}
	return g
}

// holdNext holds the next write of the controllers that is wanted. Dry-runs pass.
func (g *gate) holdNext(wanted func(*admissionapi.AdmissionRequest) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted, g.held, g.open = wanted, make(chan struct{}), make(chan struct{})
}

// awaitHeld waits until a write is held.
func (g *gate) awaitHeld(what string) {
	g.s.t.Helper()
	select {
	case <-g.held:
	case <-time.After(within):
		g.s.t.Fatalf("%s: no such write within %s", what, within)
	}
}

// release lets the held write pass, and all others.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = nil
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

// ServeHTTP answers a review, which always allows.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := &admissionapi.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	if open := g.take(review.Request); open != nil {
		<-open
	}
	review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	// A failed write is the client's affair.
	_ = json.NewEncoder(w).Encode(review)
}

// take returns what a wanted write has to wait for. Only the first is held.
func (g *gate) take(request *admissionapi.AdmissionRequest) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wanted == nil || (request.DryRun != nil && *request.DryRun) || !g.wanted(request) {
		return nil
	}
	g.wanted = nil
	close(g.held)
	return g.open
}
