package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The probe is a pod that shows that pods run. It is in a namespace where no
// test looks for its own.
const (
	probeNamespace = metav1.NamespaceSystem
	probeName      = "devcluster-probe"
)

const pollInterval = 50 * time.Millisecond

type client struct{ kube clientset.Interface }

func newClient(kubeconfig string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	// The socket accepts connections before the server behind it answers.
	config.Timeout = 5 * time.Second
	kube, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &client{kube: kube}, nil
}

// awaitAPI returns when the API server says that it is ready.
func (c *client) awaitAPI(ctx context.Context) error {
	return poll(ctx, "the API server is ready", func() (bool, error) {
		_, err := c.kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, err
	})
}

// awaitPod returns when a pod has run and is gone again, and pods can be
// created in the namespace default.
func (c *client) awaitPod(ctx context.Context) error {
	pods := c.kube.CoreV1().Pods(probeNamespace)
	// One may be left of an earlier start that was interrupted.
	if err := c.removeProbe(ctx); err != nil {
		return err
	}
	if err := poll(ctx, "a pod can be created", func() (bool, error) {
		_, err := pods.Create(ctx, probePod(), metav1.CreateOptions{})
		return err == nil, err
	}); err != nil {
		return err
	}
	if err := poll(ctx, "a pod is ready", func() (bool, error) {
		pod, err := pods.Get(ctx, probeName, metav1.GetOptions{})
		return err == nil && isReady(pod), err
	}); err != nil {
		return err
	}
	if err := c.removeProbe(ctx); err != nil {
		return err
	}
	if err := poll(ctx, "the node is ready", func() (bool, error) {
		node, err := c.kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil && nodeReady(node), err
	}); err != nil {
		return err
	}
	return poll(ctx, "the namespace default has its service account", func() (bool, error) {
		_, err := c.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, err
	})
}

func (c *client) removeProbe(ctx context.Context) error {
	pods := c.kube.CoreV1().Pods(probeNamespace)
	return poll(ctx, "the probe pod is removed", func() (bool, error) {
		err := pods.Delete(ctx, probeName, *metav1.NewDeleteOptions(0))
		return apierrors.IsNotFound(err), err
	})
}

func probePod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: probeName},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "probe", Image: "devcluster/probe"}},
		},
	}
}

func isReady(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue && pod.Status.Phase == v1.PodRunning
		}
	}
	return false
}

func nodeReady(node *v1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// poll repeats try until it says done. What went wrong last becomes a part of
// the error if the time is over.
func poll(ctx context.Context, what string, try func() (done bool, err error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		done, err := try()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("wait until %s: %w (last: %s)", what, context.Cause(ctx), oneLine(err.Error()))
			}
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
