package trigger_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/trigger"
)

var pods = trigger.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "shop"}

// bench is a watcher whose watches the test feeds.
type bench struct {
	*trigger.Watcher
	queue  trigger.Queue
	opened chan *watch.FakeWatcher
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme)
	b := &bench{opened: make(chan *watch.FakeWatcher, 10)}
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFake()
		b.opened <- w
		return true, w, nil
	})
	b.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(b.queue.ShutDown)
	b.Watcher = trigger.New(client, trigger.Options{Settle: time.Millisecond, Backoff: time.Millisecond})
	if err := b.Source().Start(t.Context(), b.queue); err != nil {
		t.Fatal(err)
	}
	return b
}

// want waits until exactly these Kustomizations were queued, in any order, each perhaps more than once.
func (b *bench) want(t *testing.T, names ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, n := range names {
		missing[n] = true
	}
	for len(missing) > 0 {
		item, _ := b.queue.Get()
		b.queue.Done(item)
		if !slices.Contains(names, item.Name) {
			t.Fatalf("%s is queued, want only %v", item.Name, names)
		}
		delete(missing, item.Name)
	}
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "flux-system", Name: name}
}

func pod(ownerNamespace, owner string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: map[string]string{
			v1.OwnerNamespaceLabel: ownerNamespace, v1.OwnerNameLabel: owner}}}
}

func TestEventQueuesThoseWhoWait(t *testing.T) {
	b := newBench(t)
	b.Set(key("a"), 0, pods)
	w := <-b.opened
	b.want(t, "a") // the opening
	b.Set(key("b"), 0, pods)
	b.want(t, "b") // it joined a watch that was open
	b.Set(key("b"), 0, pods)
	w.Modify(pod("", ""))
	b.want(t, "a", "b")
	if n := b.Watches(); n != 1 {
		t.Errorf("%d watches are open for one target", n)
	}
}

func TestEventOfAnOwnedObjectQueuesItsOwner(t *testing.T) {
	b := newBench(t)
	owned := pods
	owned.Owned = true
	b.Set(key("a"), 0, owned)
	w := <-b.opened
	b.want(t, "a")
	b.Set(key("b"), 0, owned)
	b.want(t, "b")
	w.Modify(pod("flux-system", "stranger"))
	w.Modify(pod("", ""))
	w.Modify(pod("flux-system", "b"))
	b.want(t, "b")
	w.Delete(pod("flux-system", "a"))
	b.want(t, "a")
}

func TestWatchEndsWithTheLastWhoWaits(t *testing.T) {
	b := newBench(t)
	b.Set(key("a"), 0, pods)
	w := <-b.opened
	b.want(t, "a")
	b.Set(key("b"), 0, pods)
	b.want(t, "b")
	b.Set(key("a"), 0)
	w.Modify(pod("", ""))
	b.want(t, "b")
	b.Set(key("b"), 0)
	if n := b.Watches(); n != 0 {
		t.Errorf("%d watches are open, though nobody waits", n)
	}
	<-w.ResultChan() // closed when the watch was stopped
}

func TestBrokenWatchIsOpenedAgainAndCausesALook(t *testing.T) {
	b := newBench(t)
	b.Set(key("a"), 0, pods)
	w := <-b.opened
	b.want(t, "a")
	w.Error(&metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired})
	again := <-b.opened
	b.want(t, "a")
	again.Stop()
	<-b.opened
	b.want(t, "a")
}

func TestNothingIsWatchedBeforeTheStart(t *testing.T) {
	w := trigger.New(nil, trigger.Options{})
	w.Set(key("a"), 0, pods)
	if n := w.Watches(); n != 0 {
		t.Errorf("%d watches are open", n)
	}
}
