package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// releaseBroken pushes v2 and waits until it is stuck.
func (a *act) releaseBroken(ctx context.Context) error {
	revision, err := a.push(broken)
	if err != nil {
		return err
	}
	err = a.await(ctx, "holdfast applied v2 and waits for its health, for "+cmp.Or(a.timeout, longTimeout)+" at most", func(ctx context.Context) error {
		return a.verifying(ctx, revision)
	})
	if err != nil {
		return err
	}
	ks, err := a.kustomization(ctx)
	if err != nil {
		return err
	}
	a.deadline = ks.Status.Rollout.Deadline.Time
	config, err := a.config(ctx, broken)
	if err != nil {
		return err
	}
	return a.await(ctx, "the image of v2 can't be pulled, and the 3 pods of v1 go on", func(ctx context.Context) error {
		return errors.Join(
			a.stuck(ctx, 1, config, "", "ErrImagePull", "ImagePullBackOff"),
			a.runs(ctx, replicas, a.oldConfig))
	})
}

// releaseBrokenPruned is the first act: the ConfigMap of v1 goes at once.
func (a *act) releaseBrokenPruned(ctx context.Context) error {
	if err := a.releaseBroken(ctx); err != nil {
		return err
	}
	err := a.await(ctx, "ConfigMap "+a.oldConfig+", which the pods of v1 use, is deleted", func(ctx context.Context) error {
		err := a.kube.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: a.oldConfig}, &corev1.ConfigMap{})
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	return a.show(ctx)
}

// releaseBrokenKept is the second act: the ConfigMap of v1 stays.
func (a *act) releaseBrokenKept(ctx context.Context) error {
	if err := a.releaseBroken(ctx); err != nil {
		return err
	}
	err := a.await(ctx, "ConfigMap "+a.oldConfig+", which the pods of v1 use, is kept", func(ctx context.Context) error {
		return a.retained(ctx, a.oldConfig, v1.RetainedAwaitingHealth)
	})
	if err != nil {
		return err
	}
	return a.show(ctx)
}

// podsToDelete is how many pods of v1 are deleted.
const podsToDelete = 2

func (a *act) deletePods(ctx context.Context) error {
	pods, err := a.podsOf(ctx, a.oldConfig)
	if err != nil {
		return err
	}
	for _, pod := range pods[:min(len(pods), podsToDelete)] {
		a.deleted = append(a.deleted, pod.Name)
	}
	args := append([]string{"delete", "pod", "-n", a.namespace}, a.deleted...)
	if err := a.kubectl(ctx, args...); err != nil {
		return err
	}
	return a.await(ctx, "both pods are gone", func(ctx context.Context) error {
		for _, name := range a.deleted {
			err := a.kube.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, &corev1.Pod{})
			if err == nil {
				return fmt.Errorf("pod %s is there", name)
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// waitingColumns makes kubectl show what the container of each pod waits for.
const waitingColumns = "custom-columns=NAME:.metadata.name,READY:.status.containerStatuses[0].ready," +
	"WAITING:.status.containerStatuses[0].state.waiting.message"

func (a *act) seeThemLost(ctx context.Context) error {
	text := fmt.Sprintf("configmap %q not found", a.oldConfig)
	what := fmt.Sprintf("%d pods: CreateContainerConfigError, %s", podsToDelete, text)
	err := a.await(ctx, what, func(ctx context.Context) error {
		return a.stuck(ctx, podsToDelete, a.oldConfig, text, "CreateContainerConfigError")
	})
	if err != nil {
		return err
	}
	if err := a.kubectl(ctx, "get", "pods", "-n", a.namespace); err != nil {
		return err
	}
	if err := a.kubectl(ctx, "get", "pods", "-n", a.namespace, "-o", waitingColumns); err != nil {
		return err
	}
	return a.await(ctx, "1 of 3 pods is left to serve", func(ctx context.Context) error {
		return a.runs(ctx, replicas-podsToDelete, a.oldConfig)
	})
}

func (a *act) seeThemBack(ctx context.Context) error {
	if err := a.awaitRunning(ctx, a.oldConfig); err != nil {
		return err
	}
	return a.show(ctx)
}

func (a *act) askWhatFails(ctx context.Context) error {
	if _, err := a.holdfast(ctx, "status", "-n", a.namespace); err != nil {
		return err
	}
	answer, err := a.holdfast(ctx, "why", appName, "-n", a.namespace)
	if err != nil {
		return err
	}
	return a.await(ctx, "the answer names the pod that fails and the pods that are safe",
		says(answer, "registry.example/shop:missing", fmt.Sprintf("%d pods of the former revision ready", replicas), a.oldConfig))
}

func (a *act) askWhy(ctx context.Context) error {
	answer, err := a.holdfast(ctx, "why", "ConfigMap/"+a.oldConfig, "-n", a.namespace)
	if err != nil {
		return err
	}
	return a.await(ctx, "the answer names the reason, its users and what ends it",
		says(answer, string(v1.RetainedAwaitingHealth), fmt.Sprintf("(%d pods)", replicas), "is healthy"))
}

// says is nil if an answer holds all the texts.
func says(answer string, texts ...string) func(context.Context) error {
	return func(context.Context) error {
		for _, text := range texts {
			if !strings.Contains(answer, text) {
				return fmt.Errorf("it does not say %q", text)
			}
		}
		return nil
	}
}

// releaseFixed pushes v3 and waits for the end of the story.
func (a *act) releaseFixed(ctx context.Context) error {
	revision, err := a.push(fixed)
	if err != nil {
		return err
	}
	err = a.await(ctx, "the Kustomization is Ready at v3", func(ctx context.Context) error { return a.ready(ctx, revision) })
	if err != nil {
		return err
	}
	if left := time.Until(a.deadline); a.timeout != shortTimeout {
		if left <= 0 {
			return &unmet{expected: "v3 is out before v2 is given up", seen: fmt.Errorf("that was %s ago", -left), within: patience}
		}
		a.say("v2 would have been given up %s later", left.Round(time.Second))
	}
	config, err := a.config(ctx, fixed)
	if err != nil {
		return err
	}
	if err := a.awaitRunning(ctx, config); err != nil {
		return err
	}
	err = a.await(ctx, "exactly one generated ConfigMap is left, and nothing is kept", func(ctx context.Context) error {
		return errors.Join(a.onlyConfig(ctx, fixed), a.nothingRetained(ctx))
	})
	if err != nil {
		return err
	}
	err = a.await(ctx, "the pods of v1 and v2 are gone", a.onlyPods)
	if err != nil {
		return err
	}
	return a.show(ctx)
}

// nothingRetained is nil once the status keeps nothing.
func (a *act) nothingRetained(ctx context.Context) error {
	ks, err := a.kustomization(ctx)
	if err != nil {
		return err
	}
	if r := ks.Status.Rollout; r != nil && r.RetainedCount > 0 {
		return fmt.Errorf("%d objects are kept", r.RetainedCount)
	}
	return nil
}

// onlyPods is nil once the app has no more pods than it wants.
func (a *act) onlyPods(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := a.kube.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return err
	}
	if len(list.Items) != replicas {
		return fmt.Errorf("there are %d pods", len(list.Items))
	}
	return nil
}
