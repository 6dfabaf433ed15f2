package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// releaseBrokenAlone pushes v2, which nobody repairs. The config of v1 stays, as in the second act.
func (a *act) releaseBrokenAlone(ctx context.Context) error {
	err := a.await(ctx, "v1 is stored, so that it can be brought back", func(ctx context.Context) error {
		ks, err := a.kustomization(ctx)
		if err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(ks.Status.Conditions, v1.RollbackReadyCondition) {
			return fmt.Errorf("condition %s is not True", v1.RollbackReadyCondition)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.releaseBrokenKept(ctx)
}

// seeItRolledBack waits until v2 is given up and v1 runs again.
func (a *act) seeItRolledBack(ctx context.Context) error {
	var failed time.Time
	err := a.await(ctx, "v2 is given up after "+a.timeout, func(ctx context.Context) error {
		ks, err := a.kustomization(ctx)
		if err != nil {
			return err
		}
		if ks.Status.Rollout == nil || ks.Status.Rollout.Skipped == nil {
			return errors.New("it is not")
		}
		failed = time.Now()
		return nil
	})
	if err != nil {
		return err
	}
	err = a.await(ctx, "the Kustomization says RolledBack", func(ctx context.Context) error {
		ks, err := a.kustomization(ctx)
		if err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(ks.Status.Conditions, "Ready"); c == nil || c.Reason != v1.ReasonRolledBack {
			return fmt.Errorf("condition Ready is %+v", c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := a.awaitRunning(ctx, a.oldConfig); err != nil {
		return err
	}
	a.say("from the failure to v1 in full: %s", time.Since(failed).Round(100*time.Millisecond))
	err = a.await(ctx, "the config and the pods of v2 are gone", func(ctx context.Context) error {
		return errors.Join(a.onlyConfig(ctx, first), a.onlyPods(ctx))
	})
	if err != nil {
		return err
	}
	return a.show(ctx)
}

func (a *act) askWhatHappened(ctx context.Context) error {
	status, err := a.holdfast(ctx, "status", "-n", a.namespace)
	if err != nil {
		return err
	}
	history, err := a.holdfast(ctx, "history", appName, "-n", a.namespace)
	if err != nil {
		return err
	}
	return a.await(ctx, "the answers name what failed, and what runs", says(strings.Join([]string{status, history}, "\n"),
		"RolledBack", "ImagePull", "runs now", "stored"))
}
