package app

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
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
	sharded := both
	sharded.ShardSelector = "sharding.fluxcd.io/key=a"
	tests := map[string]struct {
		options Options
		lease   *coordinationv1.Lease
		want    string
	}{
		"kustomize-controller":                            {both, lease("flux-system", kustomize, "kustomize-controller-5d_1", 5*time.Second), "kustomize-controller is at work"},
		"in another namespace":                            {both, lease("gitops", kustomize, "kustomize-controller-5d_1", 5*time.Second), "lease gitops/" + kustomize},
		"source-controller":                               {both, lease("flux-system", source, "source-controller-5d_1", 5*time.Second), "source-controller is at work"},
		"source-controller, beside":                       {one, lease("flux-system", source, "source-controller-5d_1", 5*time.Second), ""},
		"another controller":                              {both, lease("flux-system", "helm-controller-leader-election", "helm-controller-5d_1", 5*time.Second), ""},
		"dead":                                            {both, lease("flux-system", kustomize, "kustomize-controller-5d_1", time.Minute), ""},
		"released":                                        {both, lease("flux-system", kustomize, "", time.Second), ""},
		"holdfast itself":                                 {both, lease("flux-system", kustomize, "holdfast-7f_1", time.Second), ""},
		"told to take over":                               {told, lease("flux-system", kustomize, "kustomize-controller-5d_1", time.Second), ""},
		"elsewhere, for one's own":                        {narrow, lease("flux-system", kustomize, "kustomize-controller-5d_1", time.Second), ""},
		"here, for one's own":                             {narrow, lease("team-a", kustomize, "kustomize-controller-5d_1", time.Second), "--takeover"},
		"a shard of Flux, for all":                        {both, lease("flux-system", kustomize+"-0e6a8f32", "kustomize-controller-5d_1", time.Second), "kustomize-controller is at work"},
		"the same shard of Flux":                          {sharded, lease("flux-system", sharded.leaseID(), "kustomize-controller-5d_1", time.Second), "kustomize-controller is at work"},
		"all of Flux, for a shard":                        {sharded, lease("flux-system", kustomize, "kustomize-controller-5d_1", time.Second), "kustomize-controller is at work"},
		"another shard of Flux":                           {sharded, lease("flux-system", kustomize+"-0e6a8f32", "kustomize-controller-5d_1", time.Second), ""},
		"all of holdfast, for a shard":                    {sharded, lease("flux-system", kustomize, "holdfast-7f_1", time.Second), "looks after all objects, those of this shard"},
		"a shard of holdfast, for all":                    {both, lease("gitops", sharded.leaseID(), "holdfast-7f_1", time.Second), "holds the lease gitops/" + sharded.leaseID()},
		"the same shard of holdfast":                      {sharded, lease("flux-system", sharded.leaseID(), "holdfast-7f_1", time.Second), ""},
		"another shard of holdfast":                       {sharded, lease("flux-system", kustomize+"-0e6a8f32", "holdfast-7f_1", time.Second), ""},
		"a dead shard of holdfast":                        {both, lease("flux-system", sharded.leaseID(), "holdfast-7f_1", time.Minute), ""},
		"a shard of holdfast, elsewhere":                  {narrow, lease("flux-system", sharded.leaseID(), "holdfast-7f_1", time.Second), ""},
		"a shard of holdfast, on purpose":                 {told, lease("flux-system", sharded.leaseID(), "holdfast-7f_1", time.Second), ""},
		"a source-controller's shard, in holdfast's name": {both, lease("flux-system", source+"-0e6a8f32", "holdfast-7f_1", time.Second), ""},
		"without a time of renewing":                      {both, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: kustomize}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkRivals(t.Context(), withKustomizations(t, tt.lease), tt.options, now)
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

// TestWithheld: Flux's controllers are kept from starting where they are rivals.
func TestWithheld(t *testing.T) {
	both := Options{Controllers: []string{ControllerSource, ControllerKustomization}, Namespace: "flux-system", WatchAllNamespaces: true}
	one, told, narrow, sharded := both, both, both, both
	one.Controllers, told.Takeover, narrow.WatchAllNamespaces, sharded.ShardSelector = []string{ControllerKustomization}, true, false, "a=b"
	names := []string{"source-controller", "kustomize-controller"}
	for name, tt := range map[string]struct {
		options   Options
		want      []string
		namespace string
	}{
		"all": {both, names, ""}, "beside source-controller": {one, names[1:], ""},
		"--takeover": {told, nil, ""}, "one namespace": {narrow, names, "flux-system"}, "a shard": {sharded, nil, ""},
	} {
		if got, namespace := tt.options.withheld(); !slices.Equal(got, tt.want) || namespace != tt.namespace {
			t.Errorf("%s: %v in %q, want %v in %q", name, got, namespace, tt.want, tt.namespace)
		}
	}
}

// TestWriters: who wrote the status of a Kustomization a moment ago, and held no lease, is alive.
func TestWriters(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	written := func(manager, subresource, fields string, age time.Duration) *v1.Kustomization {
		return &v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{
			APIVersion: v1.GroupVersion.String(), Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource,
			Time: ptr.To(metav1.NewTime(now.Add(-age))), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}}}}
	}
	lease := func(holder string, renewed time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "flux-system", Name: leaseName},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To(int32(1)), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-renewed))),
			},
		}
	}
	const flux, own = `{"f:status":{"f:inventory":{}}}`, `{"f:status":{"f:inventory":{},"f:rollout":{}}}`
	both := Options{Controllers: []string{ControllerSource, ControllerKustomization}, Namespace: "flux-system", WatchAllNamespaces: true}
	told, source, narrow, shard := both, both, both, both
	shard.ShardSelector, shard.Kustomization.Shard = "shard=a", labels.SelectorFromSet(labels.Set{"shard": "a"})
	ours := written("gotk-kustomize-controller", "status", flux, 20*time.Second)
	ours.Labels = map[string]string{"shard": "a"}
	told.Takeover, source.Controllers, narrow.WatchAllNamespaces = true, []string{ControllerSource}, false
	tests := map[string]struct {
		options Options
		objects []client.Object
		want    string
	}{
		"Flux, a moment ago":        {both, []client.Object{written("gotk-kustomize-controller", "status", flux, 20*time.Second)}, "Kustomization shop/web 20s ago"},
		"by its other name":         {both, []client.Object{written("kustomize-controller", "status", flux, 20*time.Second)}, "start again in 1m40s"},
		"Flux, long ago":            {both, []client.Object{written("gotk-kustomize-controller", "status", flux, 3*time.Minute)}, ""},
		"holdfast":                  {both, []client.Object{written("gotk-kustomize-controller", "status", own, time.Second)}, ""},
		"not the status":            {both, []client.Object{written("gotk-kustomize-controller", "", flux, time.Second)}, ""},
		"a person":                  {both, []client.Object{written("kubectl", "status", flux, time.Second)}, ""},
		"told to take over":         {told, []client.Object{written("gotk-kustomize-controller", "status", flux, time.Second)}, ""},
		"sources only":              {source, []client.Object{written("gotk-kustomize-controller", "status", flux, time.Second)}, ""},
		"elsewhere":                 {narrow, []client.Object{written("gotk-kustomize-controller", "status", flux, time.Second)}, ""},
		"before it gave up":         {both, []client.Object{written("gotk-kustomize-controller", "status", flux, 20*time.Second), lease("", 19*time.Second)}, ""},
		"after another gave up":     {both, []client.Object{written("gotk-kustomize-controller", "status", flux, 20*time.Second), lease("", 30*time.Second)}, "without a lease"},
		"under holdfast's lease":    {both, []client.Object{written("gotk-kustomize-controller", "status", flux, 20*time.Second), lease("holdfast-1", time.Second)}, ""},
		"another shard":             {shard, []client.Object{written("gotk-kustomize-controller", "status", flux, 20*time.Second)}, ""},
		"the same shard":            {shard, []client.Object{ours}, "Kustomization shop/web 20s ago"},
		"nobody has written at all": {both, []client.Object{&v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkRivals(t.Context(), withKustomizations(t, tt.objects...), tt.options, now)
			if tt.want != "" {
				wantUnavailable(t, err, tt.want)
			} else if err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// withKustomizations is a client that knows Kustomizations.
func withKustomizations(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(objects...).Build()
}

// TestRivalsThatCanNotBeSeen: not to know is not to be alone.
func TestRivalsThatCanNotBeSeen(t *testing.T) {
	forbidden := func(namespaces ...string) client.WithWatch {
		return interceptor.NewClient(withKustomizations(t), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, leases := list.(*coordinationv1.LeaseList); !leases {
					return c.List(ctx, list, opts...)
				}
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
