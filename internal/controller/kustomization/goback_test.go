package kustomization

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/health"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/revision"
)

var healthyBefore = v1.RevisionDigest{Revision: "main@sha1:old", Digest: "sha256:old"}

// failedPass is a pass that found its revision failed, with a healthy one in the store.
func failedPass(t *testing.T, on v1.RollbackOn) (*pass, map[string]*corev1.Secret) {
	t.Helper()
	ks := newKustomization()
	ks.UID = "uid"
	ks.Spec.Rollout = &v1.RolloutPolicy{OnFailure: v1.OnFailureRollback, RollbackOn: on}
	p := passOn(ks)
	p.Mapper = apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	secrets := map[string]*corev1.Secret{}
	p.Revisions = &revision.Store{Client: interceptor.NewClient(nil, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			secrets[obj.GetName()] = obj.(*corev1.Secret)
			return nil
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			s, ok := secrets[key.Name]
			if !ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
			}
			s.DeepCopyInto(obj.(*corev1.Secret))
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			for _, s := range secrets {
				list.(*corev1.SecretList).Items = append(list.(*corev1.SecretList).Items, *s)
			}
			return nil
		},
		Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.DeleteOption) error {
			delete(secrets, obj.GetName())
			return nil
		},
	})}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "app", "namespace": "shop"}}}
	sum, err := p.Revisions.Save(t.Context(), ks, revision.Revision{RevisionDigest: healthyBefore, Objects: []*unstructured.Unstructured{obj}})
	if err != nil {
		t.Fatal(err)
	}
	last := healthyBefore
	p.rollout = v1.RolloutStatus{Phase: v1.PhaseHeld, Wanted: &v1.RevisionDigest{Revision: "main@sha1:abc", Digest: "sha256:d"}, WantedGeneration: 2,
		LastHealthy: &last, Stored: []v1.StoredRevision{{RevisionDigest: last, Checksum: sum}}}
	return p, secrets
}

// A revision is given up only for a fault of its own, and only when the one to go back to can be read.
func TestConsiderGoingBack(t *testing.T) {
	for name, tt := range map[string]struct {
		on   v1.RollbackOn
		gone bool
		want string
	}{
		"any fault counts":                 {on: v1.RollbackOnAny},
		"no fault of its own":              {on: v1.RollbackOnBadRelease, want: "not a fault of this revision's own workloads"},
		"what to go back to can't be read": {on: v1.RollbackOnAny, gone: true, want: "the stored revision is gone"},
	} {
		p, secrets := failedPass(t, tt.on)
		if tt.gone {
			clear(secrets)
		}
		p.considerGoingBack(t.Context(), health.Overall{Status: health.Failed})
		if back := p.rollout.Skipped != nil; back != (tt.want == "") || !strings.Contains(p.noRollback, tt.want) {
			t.Errorf("%s: goes back %t, since %q; want %q", name, back, p.noRollback, tt.want)
		}
	}
}

// A stored revision takes the place of the build when it is whole. When it is not, nothing is applied or pruned for it.
func TestTakeStored(t *testing.T) {
	for name, damage := range map[string]func(map[string]*corev1.Secret){
		"":                              func(map[string]*corev1.Secret) {},
		"gone":                          func(secrets map[string]*corev1.Secret) { clear(secrets) },
		"not listed with this checksum": nil,
		"damaged": func(secrets map[string]*corev1.Secret) {
			for _, s := range secrets {
				s.Data = nil
			}
		},
	} {
		p, secrets := failedPass(t, v1.RollbackOnAny)
		if damage == nil {
			p.rollout.Stored[0].Checksum = "sha256:other"
		} else {
			damage(secrets)
		}
		p.course = plan.Course{Back: true, To: healthyBefore}
		out := p.takeStored(t.Context())
		switch {
		case name == "":
			if out != nil || p.built.Digest != healthyBefore.Digest || len(p.built.Objects) != 1 || p.wanted == nil || p.wanted.Digest != "sha256:d" {
				t.Errorf("%+v; the build is %+v", out, p.built)
			}
		case out == nil || out.state != stateFailed || !strings.Contains(out.message, "nothing is applied or pruned") || p.built.Digest != "sha256:d":
			t.Errorf("%s: %+v; the build is %+v", name, out, p.built)
		}
	}
}

// What the status has as the last healthy revision stays stored until the status has another one: a process that is killed in
// between finds it.
func TestStoredUntilTheStatusIsWritten(t *testing.T) {
	p, secrets := failedPass(t, v1.RollbackOnAny)
	p.ks.Spec.Rollout.KeepRevisions = new(int32(1))
	before := p.rollout.DeepCopy()
	p.before.Status.Rollout = before
	p.rollout.Phase, p.rollout.LastHealthy = v1.PhaseHealthy, p.rollout.Wanted
	p.built.Objects = []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}}
	p.keepRevision(t.Context())
	if len(secrets) != 2 || len(p.rollout.Stored) != 2 {
		t.Fatalf("stored: %v, in %d Secrets; %s", p.rollout.Stored, len(secrets), p.storeFault)
	}
	p.before.Status.Rollout = p.rollout.DeepCopy()
	p.keepRevision(t.Context())
	if len(secrets) != 1 || len(p.rollout.Stored) != 1 || p.rollout.Stored[0].Digest != "sha256:d" {
		t.Errorf("stored: %v, in %d Secrets; %s", p.rollout.Stored, len(secrets), p.storeFault)
	}
}
