package app

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestRivals: who is alive and has the same work ends the start, and nobody else does.
func TestRivals(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lease := func(namespace, name, holder string, age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To(int32(35)), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-age))),
			},
		}
	}
	const kustomize, source = "kustomize-controller-leader-election", "source-controller-leader-election"
	both := Options{Controllers: []string{ControllerSource, ControllerKustomization}, Namespace: "flux-system", WatchAllNamespaces: true}
	one := both
	one.Controllers = []string{ControllerKustomization}
	told := both
	told.Takeover = true
	narrow := both
	narrow.Namespace, narrow.WatchAllNamespaces = "team-a", false
	tests := map[string]struct {
		options Options
		lease   *coordinationv1.Lease
		want    string
	}{
		"kustomize-controller":       {both, lease("flux-system", kustomize, "kustomize-controller-5d_1", 5*time.Second), "kustomize-controller is at work"},
		"in another namespace":       {both, lease("gitops", kustomize, "kustomize-controller-5d_1", 5*time.Second), "lease gitops/" + kustomize},
		"source-controller":          {both, lease("flux-system", source, "source-controller-5d_1", 5*time.Second), "source-controller is at work"},
		"source-controller, beside":  {one, lease("flux-system", source, "source-controller-5d_1", 5*time.Second), ""},
		"another controller":         {both, lease("flux-system", "helm-controller-leader-election", "helm-controller-5d_1", 5*time.Second), ""},
		"dead":                       {both, lease("flux-system", kustomize, "kustomize-controller-5d_1", time.Minute), ""},
		"released":                   {both, lease("flux-system", kustomize, "", time.Second), ""},
		"holdfast itself":            {both, lease("flux-system", kustomize, "holdfast-7f_1", time.Second), ""},
		"told to take over":          {told, lease("flux-system", kustomize, "kustomize-controller-5d_1", time.Second), ""},
		"elsewhere, for one's own":   {narrow, lease("flux-system", kustomize, "kustomize-controller-5d_1", time.Second), ""},
		"here, for one's own":        {narrow, lease("team-a", kustomize, "kustomize-controller-5d_1", time.Second), "--takeover"},
		"without a time of renewing": {both, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: kustomize}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkRivals(t.Context(), fake.NewClientBuilder().WithObjects(tt.lease).Build(), tt.options, now)
			if tt.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			wantUnavailable(t, err, tt.want)
		})
	}
}

// TestRivalsThatCanNotBeSeen: not to know is not to be alone.
func TestRivalsThatCanNotBeSeen(t *testing.T) {
	forbidden := func(namespaces ...string) client.WithWatch {
		return interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				asked := (&client.ListOptions{}).ApplyOptions(opts).Namespace
				for _, n := range namespaces {
					if asked == n {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", nil)
					}
				}
				return c.List(ctx, list, opts...)
			},
		})
	}
	o := Options{Controllers: []string{ControllerKustomization}, Namespace: "flux-system", WatchAllNamespaces: true}
	if err := checkRivals(t.Context(), forbidden(""), o, time.Now()); err != nil {
		t.Errorf("the own namespace can be read, and yet: %v", err)
	}
	wantUnavailable(t, checkRivals(t.Context(), forbidden("", "flux-system"), o, time.Now()), "allow the controller to list leases")
}

// TestOwnLeaseTellsWhoHoldsIt, so that a second replica takes the first for one of its kind.
func TestOwnLeaseTellsWhoHoldsIt(t *testing.T) {
	o, err := DefaultOptions()
	if err != nil {
		t.Fatal(err)
	}
	made, err := lock(&rest.Config{Host: "http://127.0.0.1:1", Transport: http.DefaultTransport}, o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(made.Identity(), ownIdentity) || made.Describe() != "flux-system/"+leaseName {
		t.Errorf("%s holds %s", made.Identity(), made.Describe())
	}
}
