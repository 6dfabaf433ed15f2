package inquiry

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/report"
)

// workload is something with pods.
type workload struct {
	pods   []corev1.Pod
	wanted int32
	// hashLabel is the label that tells the revisions of its pods apart, and newest its value for the newest one; empty
	// where that is not known.
	hashLabel, newest string
}

// readyOld counts the pods of older revisions that are ready.
func (w *workload) readyOld() int {
	if w.newest == "" {
		return 0
	}
	n := 0
	for i := range w.pods {
		if w.pods[i].Labels[w.hashLabel] != w.newest && w.pods[i].DeletionTimestamp == nil && report.PodReady(&w.pods[i]) {
			n++
		}
	}
	return n
}

// ready counts the pods that are ready.
func (w *workload) ready() int {
	n := 0
	for i := range w.pods {
		if w.pods[i].DeletionTimestamp == nil && report.PodReady(&w.pods[i]) {
			n++
		}
	}
	return n
}

// workload reads a workload and its pods. It is nil for a kind without pods and for one that does not exist.
func (q *Inquirer) workload(ctx context.Context, kind string, key client.ObjectKey) (*workload, error) {
	w := &workload{}
	var selector *metav1.LabelSelector
	var err error
	switch kind {
	case "Pod":
		pod := corev1.Pod{}
		if err = q.reader.Get(ctx, key, &pod); err == nil {
			w.pods = []corev1.Pod{pod}
		}
	case "Deployment":
		selector, err = q.deployment(ctx, key, w)
	case "ReplicaSet":
		rs := &appsv1.ReplicaSet{}
		err = q.reader.Get(ctx, key, rs)
		selector, w.wanted = rs.Spec.Selector, ptr.Deref(rs.Spec.Replicas, 1)
	case "StatefulSet":
		set := &appsv1.StatefulSet{}
		err = q.reader.Get(ctx, key, set)
		selector, w.wanted = set.Spec.Selector, ptr.Deref(set.Spec.Replicas, 1)
		w.hashLabel, w.newest = appsv1.ControllerRevisionHashLabelKey, set.Status.UpdateRevision
	case "DaemonSet":
		set := &appsv1.DaemonSet{}
		err = q.reader.Get(ctx, key, set)
		selector, w.wanted = set.Spec.Selector, set.Status.DesiredNumberScheduled
	case "Job":
		job := &batchv1.Job{}
		err = q.reader.Get(ctx, key, job)
		selector, w.wanted = job.Spec.Selector, ptr.Deref(job.Spec.Parallelism, 1)
	default:
		return nil, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	return w, q.readPods(ctx, key.Namespace, selector, w)
}

func (q *Inquirer) readPods(ctx context.Context, namespace string, selector *metav1.LabelSelector, w *workload) error {
	if selector == nil {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return err
	}
	list := &corev1.PodList{}
	if err := q.reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: s}); err != nil {
		return err
	}
	w.pods = list.Items
	return nil
}

// revisionAnnotation numbers the ReplicaSets of a Deployment.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// deployment reads a Deployment and finds its newest ReplicaSet.
func (q *Inquirer) deployment(ctx context.Context, key client.ObjectKey, w *workload) (*metav1.LabelSelector, error) {
	d := &appsv1.Deployment{}
	if err := q.reader.Get(ctx, key, d); err != nil {
		return nil, err
	}
	w.wanted, w.hashLabel = ptr.Deref(d.Spec.Replicas, 1), appsv1.DefaultDeploymentUniqueLabelKey
	list := &appsv1.ReplicaSetList{}
	if err := q.reader.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
		return nil, err
	}
	newest := -1
	for i := range list.Items {
		rs := &list.Items[i]
		if !metav1.IsControlledBy(rs, d) {
			continue
		}
		if n, err := strconv.Atoi(rs.Annotations[revisionAnnotation]); err == nil && n > newest {
			newest, w.newest = n, rs.Labels[w.hashLabel]
		}
	}
	return d.Spec.Selector, nil
}
