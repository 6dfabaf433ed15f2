package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// TestC38: 20 Kustomizations wait in a namespace that is full of pods, with 4 workers, and the receiver of events never answers. The next
// one used to wait for all that. Here it is Ready while they wait, which lists no pod; the search for users lists the pods in pages, once
// for all objects that are stale.
func TestC38(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	const waiting, pods, page, names = 20, 600, 500, 10
	s.createGatedPods(pods)
	receiver := newSilentReceiver(t)
	calls := &podLists{}
	s.runCounted(calls, func(o *app.Options) { o.Kustomization.Concurrent, o.EventsAddr = 4, receiver.server.URL })

	var generators []string
	for i := range names {
		generators = append(generators, fmt.Sprintf("c%d", i))
	}
	files := func(value string) map[string]string {
		return map[string]string{"stuck/a.yaml": configMap("a", "1"), "fine/kustomization.yaml": generated(value, generators)}
	}
	r1 := s.push(files("1"))
	s.follow()
	for i := range waiting {
		name := fmt.Sprintf("stuck%d", i)
		s.deploy(name, at("stuck"), unwaited, func(ks *v1.Kustomization) {
			ks.Spec.NamePrefix = name + "-"
			ks.Spec.HealthChecks = []fluxmeta.NamespacedObjectKindReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Namespace: s.namespace, Name: "never"}}
		})
	}
	allWait := func() error {
		var errs []error
		for i := range waiting {
			errs = append(errs, phaseIs(v1.PhaseVerifying)(s.mustGet(fmt.Sprintf("stuck%d", i))))
		}
		return errors.Join(errs...)
	}
	eventually(t, within, "all of them wait", func(context.Context) error { return allWait() })
	s.deploy("fine", at("fine"))
	s.awaitReady("fine", r1)
	if err := allWait(); err != nil {
		t.Errorf("after another one was Ready: %v", err)
	}
	if receiver.asked() == 0 {
		t.Error("no event was sent")
	}
	if n, _ := calls.take(); n != 0 {
		t.Errorf("waiting lists the pods: %d requests", n)
	}

	// One pod runs on all of the config that is about to be stale.
	user := s.gatedPod("user")
	for _, name := range generators {
		user.Spec.Containers[0].EnvFrom = append(user.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.generatedName(name, "1")}}})
	}
	create(t, user)
	r2 := s.push(files("2"))
	s.awaitReady("fine", r2)
	s.awaitMessage("fine", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded", fmt.Sprintf("%d InUse", names))
	s.request("fine")
	calls.take()
	s.request("fine")
	n, unbounded := calls.take()
	const pages = (pods + 1 + page - 1) / page
	if n == 0 || n%pages != 0 || n/pages >= names || unbounded > 0 {
		t.Errorf("%d requests for pods, %d without a limit; want %d for each look at the %d objects together", n, unbounded, pages, names)
	}
}

// createGatedPods fills the namespace with pods that are never scheduled.
func (s *scenario) createGatedPods(n int) {
	s.t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return kube.Create(s.t.Context(), s.gatedPod("pod-"+strconv.Itoa(i))) })
	}
	if err := group.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scenario) gatedPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}},
		Containers:      []corev1.Container{{Name: "main", Image: goodImage}},
	}}
}

// runCounted runs the controllers as runHoldfast does, and counts their requests.
func (s *scenario) runCounted(calls *podLists, changes ...func(*app.Options)) {
	s.t.Helper()
	options := testOptions(s.t, s.namespace)
	for _, change := range changes {
		change(&options)
	}
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next: next, calls: calls} })
	ctx, cancel := context.WithCancel(context.Background())
	h := &holdfast{cancel: cancel, done: make(chan error, 1)}
	go func() { h.done <- app.Run(ctx, config, options) }()
	s.t.Cleanup(func() { h.stop(s.t) })
}

// podLists counts the lists of pods.
type podLists struct {
	mu           sync.Mutex
	n, unbounded int
}

// take returns the number of lists since the last call, and how many of them had no limit.
func (c *podLists) take() (n, unbounded int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, unbounded = c.n, c.unbounded
	c.n, c.unbounded = 0, 0
	return n, unbounded
}

// counting is a transport that counts.
type counting struct {
	next  http.RoundTripper
	calls *podLists
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods") && !query.Has("watch") {
		c.calls.mu.Lock()
		c.calls.n++
		if !query.Has("limit") {
			c.calls.unbounded++
		}
		c.calls.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// silentReceiver takes events and does not answer until the test ends.
type silentReceiver struct {
	server *httptest.Server
	mu     sync.Mutex
	events int
}

func newSilentReceiver(t *testing.T) *silentReceiver {
	t.Helper()
	r, end := &silentReceiver{}, make(chan struct{})
	r.server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		r.mu.Lock()
		r.events++
		r.mu.Unlock()
		<-end
	}))
	t.Cleanup(r.server.Close)
	t.Cleanup(func() { close(end) })
	return r
}

func (r *silentReceiver) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events
}
