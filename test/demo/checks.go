package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

const (
	// patience is how long a step waits for what takes seconds on an idle machine.
	patience = 90 * time.Second
	// look is the time between two looks.
	look = 100 * time.Millisecond
)

// await looks until check returns nil, and tells how long that took.
func (s *stage) await(ctx context.Context, what string, check func(context.Context) error) error {
	s.narrator.await(what)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last := errors.New("nothing, the cluster did not answer")
	for {
		err := check(ctx)
		if err == nil {
			s.seen(time.Since(began))
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		if dead := s.dead(); dead != nil {
			return &unmet{expected: what, seen: dead, within: patience}
		}
		select {
		case <-ctx.Done():
			return &unmet{expected: what, seen: last, within: patience}
		case <-time.After(look):
		}
	}
}

// kustomization reads the Kustomization of an act.
func (a *act) kustomization(ctx context.Context) (*v1.Kustomization, error) {
	ks := &v1.Kustomization{}
	return ks, a.kube.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: appName}, ks)
}

// ready is nil once the Kustomization is Ready at a revision.
func (a *act) ready(ctx context.Context, revision string) error {
	ks, err := a.kustomization(ctx)
	if err != nil {
		return err
	}
	c := apimeta.FindStatusCondition(ks.Status.Conditions, "Ready")
	switch {
	case c == nil:
		return errors.New("the Kustomization has no condition Ready")
	case c.Status != metav1.ConditionTrue:
		return fmt.Errorf("condition Ready is %s: %s", c.Status, c.Message)
	case ks.Status.LastAppliedRevision != revision:
		return fmt.Errorf("condition Ready is True at %s", ks.Status.LastAppliedRevision)
	}
	return nil
}

// verifying is nil once a revision was applied and its health is waited for.
func (a *act) verifying(ctx context.Context, revision string) error {
	ks, err := a.kustomization(ctx)
	if err != nil {
		return err
	}
	r := ks.Status.Rollout
	if r == nil || r.Running == nil || r.Running.Revision != revision || r.Phase != v1.PhaseVerifying {
		return fmt.Errorf("rollout is %+v", r)
	}
	return nil
}

// retained is nil once the status keeps a ConfigMap for a reason.
func (a *act) retained(ctx context.Context, config string, reason v1.RetentionReason) error {
	ks, err := a.kustomization(ctx)
	if err != nil {
		return err
	}
	if ks.Status.Rollout != nil {
		for _, r := range ks.Status.Rollout.Retained {
			if r.ID == a.namespace+"_"+config+"__ConfigMap" && r.Reason == reason {
				return nil
			}
		}
	}
	return fmt.Errorf("status.rollout does not retain ConfigMap %s as %s", config, reason)
}

// config finds the generated ConfigMap of a release.
func (a *act) config(ctx context.Context, r release) (string, error) {
	all, err := a.configs(ctx)
	if err != nil {
		return "", err
	}
	for name, greeting := range all {
		if greeting == r.greeting {
			return name, nil
		}
	}
	return "", fmt.Errorf("no generated ConfigMap has GREETING=%s; there are %v", r.greeting, slices.Sorted(maps.Keys(all)))
}

// configs are the generated ConfigMaps, with their greeting.
func (a *act) configs(ctx context.Context) (map[string]string, error) {
	list := &corev1.ConfigMapList{}
	if err := a.kube.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, cm := range list.Items {
		if strings.HasPrefix(cm.Name, configPrefix) {
			found[cm.Name] = cm.Data["GREETING"]
		}
	}
	return found, nil
}

// onlyConfig is nil once exactly one generated ConfigMap is there, that of the release.
func (a *act) onlyConfig(ctx context.Context, r release) error {
	all, err := a.configs(ctx)
	if err != nil {
		return err
	}
	if _, err := a.config(ctx, r); err != nil || len(all) != 1 {
		return fmt.Errorf("the generated ConfigMaps are %v", all)
	}
	return nil
}

// podsOf are the pods that use a ConfigMap and are not being deleted.
func (a *act) podsOf(ctx context.Context, config string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := a.kube.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name != config
	}), nil
}

// runs is nil once so many pods run with a ConfigMap and are ready, none of them among those that were deleted.
func (a *act) runs(ctx context.Context, want int, config string) error {
	pods, err := a.podsOf(ctx, config)
	if err != nil {
		return err
	}
	ready := 0
	for _, pod := range pods {
		if isReady(pod) && !slices.Contains(a.deleted, pod.Name) {
			ready++
		}
	}
	if ready != want {
		return fmt.Errorf("%d of %d pods with %s are ready", ready, len(pods), config)
	}
	return nil
}

func isReady(pod corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// stuck is nil once so many pods with a ConfigMap wait for one of the reasons, with a message that holds a text.
func (a *act) stuck(ctx context.Context, want int, config, text string, reasons ...string) error {
	pods, err := a.podsOf(ctx, config)
	if err != nil {
		return err
	}
	found := 0
	var seen []string
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			waiting := c.State.Waiting
			if waiting == nil {
				continue
			}
			seen = append(seen, pod.Name+" "+waiting.Reason)
			if slices.Contains(reasons, waiting.Reason) && strings.Contains(waiting.Message, text) {
				found++
			}
		}
	}
	if found != want {
		return fmt.Errorf("%d of %d pods with %s do: %v", found, len(pods), config, seen)
	}
	return nil
}
