package observe

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/blame"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/paging"
)

// Evidence reads what a workload that is not healthy has to say for itself: the pods of its newest template, and the refusal
// that its controller met.
func (o *Observer) Evidence(ctx context.Context, id object.ID) (blame.Evidence, error) {
	e := blame.Evidence{ID: id}
	key := client.ObjectKey{Namespace: id.Namespace, Name: id.Name}
	var err error
	switch id.GroupKind().String() {
	case "Deployment.apps":
		err = o.deploymentEvidence(ctx, key, &e)
	case "StatefulSet.apps":
		set := &appsv1.StatefulSet{}
		if err = o.Reader.Get(ctx, key, set); err == nil {
			err = o.podsOf(ctx, set, set.Spec.Selector, map[string]string{appsv1.ControllerRevisionHashLabelKey: set.Status.UpdateRevision}, &e)
		}
	case "DaemonSet.apps":
		set := &appsv1.DaemonSet{}
		if err = o.Reader.Get(ctx, key, set); err == nil {
			newest := strconv.FormatInt(templateGeneration(set), 10)
			err = o.podsOf(ctx, set, set.Spec.Selector, map[string]string{"pod-template-generation": newest}, &e)
		}
	case "ReplicaSet.apps":
		err = o.replicaSetEvidence(ctx, key, &e)
	case "Job.batch":
		job := &batchv1.Job{}
		if err = o.Reader.Get(ctx, key, job); err == nil {
			e.Failed = hasFailed(job)
			err = o.podsOf(ctx, job, job.Spec.Selector, nil, &e)
		}
	case "Pod":
		pod := corev1.Pod{}
		if err = o.Reader.Get(ctx, key, &pod); err == nil {
			e.Pods = []corev1.Pod{pod}
		}
	}
	if err != nil {
		return e, fmt.Errorf("find out what is wrong with %s: %w", id, err)
	}
	return e, nil
}

func (o *Observer) replicaSetEvidence(ctx context.Context, key client.ObjectKey, e *blame.Evidence) error {
	set := &appsv1.ReplicaSet{}
	if err := o.Reader.Get(ctx, key, set); err != nil {
		return err
	}
	e.Refusal = refusalOf(set.Status.Conditions)
	return o.podsOf(ctx, set, set.Spec.Selector, nil, e)
}

// deploymentEvidence looks at the newest ReplicaSet: the pods of older ones are of another revision.
func (o *Observer) deploymentEvidence(ctx context.Context, key client.ObjectKey, e *blame.Evidence) error {
	deployment := &appsv1.Deployment{}
	if err := o.Reader.Get(ctx, key, deployment); err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return err
	}
	var sets []appsv1.ReplicaSet
	opts := client.ListOptions{Namespace: key.Namespace, LabelSelector: selector, Limit: listPage}
	empty := func() *appsv1.ReplicaSetList { return &appsv1.ReplicaSetList{} }
	err = paging.Each(ctx, o.Reader, opts, empty, func(page *appsv1.ReplicaSetList) (bool, error) {
		sets = append(sets, page.Items...)
		return false, nil
	})
	if err != nil {
		return err
	}
	newest := newestOf(deployment, sets)
	if newest == nil {
		return nil
	}
	e.Refusal = refusalOf(newest.Status.Conditions)
	return o.podsOf(ctx, newest, newest.Spec.Selector, nil, e)
}

// newestOf is the ReplicaSet of the template that the Deployment has now, nil if its controller has not made it yet. An older one
// that has the same template is used again, so that neither age nor number tell; of two with the same, it is the one that has
// replicas.
func newestOf(d *appsv1.Deployment, sets []appsv1.ReplicaSet) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	for i := range sets {
		set := &sets[i]
		template := set.Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		if !metav1.IsControlledBy(set, d) || !apiequality.Semantic.DeepEqual(*template, d.Spec.Template) {
			continue
		}
		if newest == nil || replicasOf(set) > replicasOf(newest) {
			newest = set
		}
	}
	return newest
}

func replicasOf(set *appsv1.ReplicaSet) int32 { return ptr.Deref(set.Spec.Replicas, 1) }

func refusalOf(conditions []appsv1.ReplicaSetCondition) string {
	for _, c := range conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func templateGeneration(set *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return set.Generation
	}
	return n
}

func hasFailed(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// podsOf adds the pods that an owner controls and that carry the labels.
func (o *Observer) podsOf(ctx context.Context, owner metav1.Object, selector *metav1.LabelSelector, labels map[string]string, e *blame.Evidence) error {
	matching, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return err
	}
	opts := client.ListOptions{Namespace: owner.GetNamespace(), LabelSelector: matching, Limit: listPage}
	empty := func() *corev1.PodList { return &corev1.PodList{} }
	return paging.Each(ctx, o.Reader, opts, empty, func(page *corev1.PodList) (bool, error) {
		for _, pod := range page.Items {
			if metav1.IsControlledBy(&pod, owner) && hasLabels(pod.Labels, labels) {
				e.Pods = append(e.Pods, pod)
			}
		}
		return false, nil
	})
}

func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}
