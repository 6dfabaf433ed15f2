package integration

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionapi "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestOutages: parts of the control plane fail in the middle of an apply and in the middle of a prune. The end is that of a rollout
// without an outage: nothing is lost, nothing is deleted that must not be, and what was said meanwhile can be understood.
func TestOutages(t *testing.T) {
	t.Parallel()
	if !ownCluster(t) {
		return
	}
	t.Run("API server killed", func(t *testing.T) { newOutage(t).play(killAPIServer) })
	t.Run("etcd paused", func(t *testing.T) { newOutage(t).play(pauseEtcd) })
	t.Run("aggregated API dead", deadAPI)
}

// outage is a scenario that a part of the control plane fails in.
type outage struct {
	*scenario
	gate *gate
	mu   sync.Mutex
	said map[string]bool
}

// many is the number of objects that come with the second revision, and of those that go with it.
const many = 30

func newOutage(t *testing.T) *outage {
	return &outage{scenario: newScenario(t), said: map[string]bool{}}
}

// play makes a rollout with an outage at the write of the middle object of the apply, and one at the middle of the prune.
func (o *outage) play(strike func(o *outage)) {
	o.t.Helper()
	o.gate = o.newGate()
	o.push(o.files(1, "old", "used"))
	o.follow()
	o.deploy("app")
	startProcess(o.t, o.namespace, env.Kubeconfig, "--enable-leader-election")
	o.awaitCondition("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	kept := o.keptObjects()
	listening := o.listen()

	middle := fmt.Sprintf("-%03d", many/2)
	o.gate.holdNext(isWrite(admissionapi.Create, "configmaps", "new"+middle))
	r2 := o.push(o.files(2, "new", ""))
	o.gate.awaitHeld("the apply is half done")
	strike(o)
	o.gate.holdNext(isWrite(admissionapi.Delete, "configmaps", "old"+middle))
	o.gate.awaitHeld("the prune is half done")
	for object, uid := range kept {
		o.sameUID(object, uid)
	}
	strike(o)

	o.await("app", "as after a rollout without an outage", func(ks *v1.Kustomization) error { return o.isEnd(ks, r2) })
	for object, uid := range kept {
		o.sameUID(object, uid)
	}
	o.noOrphan("in the end")
	listening()
	o.saidNothingOdd()
	if err := kube.Delete(o.t.Context(), o.podOf("user"), client.GracePeriodSeconds(0)); err != nil {
		o.t.Fatal(err)
	}
	eventuallyGone(o.t, within, o.cm("used"))
}

// files are a Deployment on generated config, a number of ConfigMaps, and one that stays; the first revision has one more, which a
// pod that nobody owns runs on.
func (o *outage) files(revision int, prefix, used string) map[string]string {
	files := webApp(fmt.Sprint(revision), goodImage)
	resources := []string{"web.yaml", "many.yaml", "keep.yaml"}
	files["many.yaml"] = strings.ReplaceAll(manyConfigMaps(many), "many-", prefix+"-")
	files["keep.yaml"] = configMap("keep", "1")
	if used != "" {
		files["used.yaml"] = configMap(used, "1")
		resources = append(resources, "used.yaml")
	}
	files["kustomization.yaml"] = generated(fmt.Sprint(revision), []string{"app"}, resources...)
	return files
}

// keptObjects are what must outlive the outages, with their UIDs.
func (o *outage) keptObjects() map[client.Object]string {
	o.t.Helper()
	foreign := o.cm("foreign")
	user := o.podOf("user")
	user.Spec.Containers = []corev1.Container{{Name: "main", Image: goodImage, EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "used"}}}}}}
	create(o.t, foreign, user)
	o.awaitRunning("user")
	kept := map[client.Object]string{}
	for _, object := range []client.Object{o.cm("keep"), o.cm("used"), foreign, user, o.deploymentOf("web")} {
		kept[object] = o.uid(object)
	}
	return kept
}

func (o *outage) isEnd(ks *v1.Kustomization, revision string) error {
	if err := conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue); err != nil {
		return err
	}
	if ks.Status.LastAppliedRevision != revision {
		return fmt.Errorf("applied is %s", ks.Status.LastAppliedRevision)
	}
	if reason := retainedBecause(ks, o.cmID("used")); reason != v1.RetainedInUse || len(ks.Status.Rollout.Retained) != 1 {
		return fmt.Errorf("retained are %v", ks.Status.Rollout.Retained)
	}
	all, err := o.configMaps(o.t.Context(), "app-")
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("the generated ConfigMaps are %v", keys(all))
	}
	generated := all["2"]
	want := []string{o.cmID(generated.Name), o.cmID("keep"), o.cmID("used"), o.id("apps/Deployment", "web")}
	for i := range many {
		want = append(want, o.cmID(fmt.Sprintf("new-%03d", i)))
		if err := isGone(o.t.Context(), o.cm(fmt.Sprintf("old-%03d", i))); err != nil {
			return err
		}
	}
	slices.Sort(want)
	if have := slices.Sorted(maps.Keys(inventoryIDs(ks))); !slices.Equal(have, want) {
		return fmt.Errorf("the inventory is %v", have)
	}
	return nil
}

// killAPIServer kills the API server while it handles a write, and waits until the next one answers.
func killAPIServer(o *outage) {
	o.t.Helper()
	pid := o.signal("apiserver", syscall.SIGKILL)
	eventually(o.t, within, "another API server is started", func(context.Context) error {
		if now, err := env.PID("apiserver"); err != nil || now == pid {
			return fmt.Errorf("it is %d: %w", now, err)
		}
		return nil
	})
	o.gate.release()
	o.awaitAPI()
}

// pauseEtcd stops etcd before a write gets there, until requests have timed out whose outcome nobody knows: they are in its
// socket, and it may or may not carry them out later.
func pauseEtcd(o *outage) {
	o.t.Helper()
	o.signal("etcd", syscall.SIGSTOP)
	defer o.awaitAPI()
	defer o.signal("etcd", syscall.SIGCONT)
	o.gate.release()
	// What was sent before this has timed out when this has.
	ctx, cancel := context.WithTimeout(o.t.Context(), within)
	defer cancel()
	if err := kube.Create(ctx, o.cm("probe")); !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
		o.t.Errorf("a request without etcd ended with: %v", err)
	}
}

func (o *outage) signal(component string, signal syscall.Signal) int {
	o.t.Helper()
	pid, err := env.PID(component)
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return pid
}

func (o *outage) awaitAPI() {
	o.t.Helper()
	eventually(o.t, within, "the API server answers", func(ctx context.Context) error {
		return kube.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
	})
}

// listen looks at the Kustomization all the time, and collects what its conditions say. The function that it returns ends that.
func (o *outage) listen() (stop func()) {
	ctx, cancel := context.WithCancel(o.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pollInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			ks, err := o.get(ctx, "app")
			if err != nil {
				continue // nothing can be read during an outage
			}
			o.note(ks)
		}
	}()
	return func() { cancel(); <-done }
}

func (o *outage) note(ks *v1.Kustomization) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := conforms(ks); err != nil {
		o.t.Errorf("no conformant state: %v\n%v", err, ks.Status.Conditions)
	}
	for _, c := range ks.Status.Conditions {
		o.said[fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)] = true
	}
}

// odd is what no message may show: what only a programmer can make something of.
var odd = regexp.MustCompile(`0x[0-9a-f]{6}|goroutine|%!|<nil>`)

// saidNothingOdd checks all that was said, and logs it.
func (o *outage) saidNothingOdd() {
	o.t.Helper()
	for _, message := range slices.Sorted(maps.Keys(o.said)) {
		o.t.Log(message)
		if odd.MatchString(message) || len(message) > 2000 {
			o.t.Errorf("nobody understands: %s", message)
		}
	}
}
