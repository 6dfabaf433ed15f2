package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// Rollback asks for a stored revision, and returns the value of the annotation. It is refused when another revision is wanted
// by now than the plan was made for.
func Rollback(ctx context.Context, c client.Client, plan report.Rollback, request v1.RollbackRequest) (string, error) {
	ks, err := get(ctx, c, plan.Namespace, plan.Name)
	if err != nil {
		return "", err
	}
	if r := ks.Status.Rollout; r == nil || r.Wanted == nil || r.Wanted.Digest != plan.From.Digest {
		return "", refusedf("%s/%s wants another revision by now than the one that was shown: nothing is written; run the command again",
			plan.Namespace, plan.Name)
	}
	value, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("encode the request: %w", err)
	}
	_, err = annotate(ctx, c, ks, v1.AnnotationRollback, string(value))
	return string(value), err
}

// Retry asks to try the wanted revision once more, and returns the value of the annotation.
func Retry(ctx context.Context, c client.Client, namespace, name string, now time.Time) (string, error) {
	return command(ctx, c, namespace, name, v1.AnnotationRetry, now)
}

// Unpin ends a pin or a skip, and returns the value of the annotation. It is refused where there is neither.
func Unpin(ctx context.Context, c client.Client, namespace, name string, now time.Time) (string, error) {
	ks, err := get(ctx, c, namespace, name)
	if err != nil {
		return "", err
	}
	if r := ks.Status.Rollout; r == nil || r.Pin == nil && r.Skipped == nil {
		return "", refusedf("%s/%s is neither pinned nor rolled back: nothing is written", namespace, name)
	}
	return command(ctx, c, namespace, name, v1.AnnotationRelease, now)
}

// Pause stops a Kustomization until a time, and returns what it was stopped by.
func Pause(ctx context.Context, c client.Client, namespace, name string, pause policy.Pause) (report.Pause, error) {
	ks, err := get(ctx, c, namespace, name)
	if err != nil {
		return report.Pause{}, err
	}
	value, err := json.Marshal(pause)
	if err != nil {
		return report.Pause{}, fmt.Errorf("encode the pause: %w", err)
	}
	answer := report.PauseOf(ks, pause)
	_, err = annotate(ctx, c, ks, v1.AnnotationPause, string(value))
	return answer, err
}

// EndPause takes away a pause that is in force, and tells whether there was one.
func EndPause(ctx context.Context, c client.Client, namespace, name string, now time.Time) (bool, error) {
	ks, err := get(ctx, c, namespace, name)
	if err != nil || policy.PauseOf(ks, now) == nil {
		return false, err
	}
	return true, change(ctx, c, ks, "end the pause of", func() { delete(ks.Annotations, v1.AnnotationPause) })
}

// command writes an annotation whose value is new each time.
func command(ctx context.Context, c client.Client, namespace, name, key string, now time.Time) (string, error) {
	ks, err := get(ctx, c, namespace, name)
	if err != nil {
		return "", err
	}
	value := now.UTC().Format(time.RFC3339Nano)
	_, err = annotate(ctx, c, ks, key, value)
	return value, err
}

// RequestOf is the request for a stored revision.
func RequestOf(plan report.Rollback, by, reason string, now time.Time) v1.RollbackRequest {
	return v1.RollbackRequest{To: plan.To.Digest, Until: plan.Until, By: by, Reason: reason, At: metav1.NewTime(now)}
}
