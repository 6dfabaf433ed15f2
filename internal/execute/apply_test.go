package execute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

func names(objects []*unstructured.Unstructured) string {
	var list []string
	for _, o := range objects {
		list = append(list, object.IDOf(o).String())
	}
	return strings.Join(list, " ")
}

func build() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		obj("apps/v1", "Deployment/a/web"), obj("example.com/v1", "Thing/a/t"), obj("v1", "ServiceAccount/a/sa"),
		obj("rbac.authorization.k8s.io/v1", "RoleBinding/a/rb"), obj("v1", "ConfigMap/a/cm"), obj("v1", "Namespace/a"),
		obj("storage.k8s.io/v1", "StorageClass/fast"), obj("apiextensions.k8s.io/v1", "CustomResourceDefinition/things.example.com"),
		obj("example.com/v1", "Early/a/e"), obj("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration/hook"),
		obj("rbac.authorization.k8s.io/v1", "ClusterRole/cr"), obj("rbac.authorization.k8s.io/v1", "Role/a/r"),
		obj("v1", "LimitRange/a/lr"), obj("v1", "ResourceQuota/a/q"), obj("v1", "Service/a/svc"),
	}
}

// P77: what the rest needs comes first, and webhooks come last, whatever the order of the manifests.
func TestApplyOrder(t *testing.T) {
	e := &execute.Executor{CustomStageKinds: map[schema.GroupKind]struct{}{{Group: "example.com", Kind: "Early"}: {}}}
	const want = "CustomResourceDefinition/things.example.com Namespace/a ClusterRole/cr StorageClass/fast Early/a/e " +
		"ResourceQuota/a/q ServiceAccount/a/sa Role/a/r RoleBinding/a/rb LimitRange/a/lr ConfigMap/a/cm Service/a/svc Deployment/a/web Thing/a/t " +
		"ValidatingWebhookConfiguration/hook"
	objects := build()
	if got := names(e.ApplyOrder(objects)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	slices.Reverse(objects)
	if got := names(e.ApplyOrder(objects)); got != want {
		t.Errorf("another order for another input: %s", got)
	}
}

// P75: a stage is dry-run as a whole before its first write, what does not differ is not written, and every object is read once.
func TestApplyWritesAStageAfterItsDryRun(t *testing.T) {
	unchanged, changed := obj("v1", "ConfigMap/a/same", of("1")), obj("v1", "ConfigMap/a/new", of("2"))
	a := newAPI(unchanged, obj("v1", "ConfigMap/a/new", of("1")))
	e := a.executor()
	e.Concurrency = 1
	got, err := e.Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{
		unchanged, changed, obj("v1", "ServiceAccount/a/sa"), obj("v1", "Secret/a/s")}})
	if err != nil || !got.Done() {
		t.Fatal(got, err)
	}
	wantCalls(t, a, "dry-run ServiceAccount/a/sa", "apply ServiceAccount/a/sa",
		"dry-run ConfigMap/a/new", "dry-run ConfigMap/a/same", "dry-run Secret/a/s", "apply ConfigMap/a/new", "apply Secret/a/s")
	want := []string{"ServiceAccount/a/sa created", "ConfigMap/a/new configured", "Secret/a/s created"}
	if !slices.Equal(got.Changes, want) {
		t.Errorf("changes %q, want %q", got.Changes, want)
	}
	if a.reads != 4 {
		t.Errorf("%d reads of 4 objects", a.reads)
	}
}

// P77, P78: the next stage waits for the one before to be in force.
func TestApplyWaitsForAStage(t *testing.T) {
	crd := obj("apiextensions.k8s.io/v1", "CustomResourceDefinition/things.example.com")
	a := newAPI()
	got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{obj("example.com/v1", "Thing/a/t"), crd}})
	if err != nil || !slices.Equal(got.Pending, []string{"CustomResourceDefinition/things.example.com is InProgress"}) {
		t.Errorf("%+v %v", got, err)
	}
	wantCalls(t, a, "dry-run CustomResourceDefinition/things.example.com", "apply CustomResourceDefinition/things.example.com")
}

// What can't be read is not written over: nothing of its stage is sent.
func TestApplyReadsFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"forbidden": {forbidden("x"), "ConfigMap/a/x read failed: "},
		"timeout":   {apierrors.NewTimeoutError("slow", 1), "ConfigMap/a/x read failed: "},
		"no kind": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, SearchedVersions: []string{"v1"}},
			"ConfigMap/a/x: the cluster serves no kind ConfigMap in v1: check apiVersion and kind"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI()
			a.faults["get ConfigMap/a/x"] = tt.err
			got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{obj("v1", "ConfigMap/a/x"), obj("v1", "ConfigMap/a/y")}})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || len(got.Changes) > 0 {
				t.Errorf("%+v %v, want %s", got, err, tt.want)
			}
			wantCalls(t, a)
		})
	}
}

func TestApplySkipsAndAwaits(t *testing.T) {
	tests := map[string]struct {
		live        *unstructured.Unstructured
		desired     *unstructured.Unstructured
		wantPending []string
		wantCalls   []string
	}{
		"being deleted": {live: obj("v1", "ConfigMap/a/x", leaving), desired: obj("v1", "ConfigMap/a/x"),
			wantPending: []string{"ConfigMap/a/x is being deleted"}},
		"being deleted, not ours to apply":      {live: obj("v1", "ConfigMap/a/x", annotated("ssa", "Ignore"), leaving), desired: obj("v1", "ConfigMap/a/x")},
		"reconcile disabled on the live object": {live: obj("v1", "ConfigMap/a/x", annotated("reconcile", "disabled")), desired: obj("v1", "ConfigMap/a/x", of("2"))},
		"reconcile disabled in the source":      {live: obj("v1", "ConfigMap/a/x"), desired: obj("v1", "ConfigMap/a/x", of("2"), annotated("reconcile", "disabled"))},
		"only if not present, and it is":        {live: obj("v1", "ConfigMap/a/x"), desired: obj("v1", "ConfigMap/a/x", of("2"), annotated("ssa", "IfNotPresent"))},
		"prune disabled is applied": {live: obj("v1", "ConfigMap/a/x"), desired: obj("v1", "ConfigMap/a/x", of("2"), annotated("prune", "disabled")),
			wantCalls: []string{"dry-run ConfigMap/a/x", "apply ConfigMap/a/x"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI(tt.live)
			got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{tt.desired}})
			if err != nil || !slices.Equal(got.Pending, tt.wantPending) {
				t.Errorf("%+v %v", got, err)
			}
			wantCalls(t, a, tt.wantCalls...)
		})
	}
}

// All that is wrong with a stage is said at once, but no more than a condition can hold.
func TestApplyErrors(t *testing.T) {
	a := newAPI()
	var objects []*unstructured.Unstructured
	for i := range 14 {
		name := fmt.Sprintf("ConfigMap/a/x%02d", i)
		objects = append(objects, obj("v1", name))
		if i > 0 {
			a.faults["dry-run "+name] = forbidden(name)
		}
	}
	_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: objects})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 11 || lines[10] != "and 3 more errors" || !strings.HasPrefix(lines[0], "ConfigMap/a/x01 dry-run failed (Forbidden): ") {
		t.Errorf("%d lines:\n%v", len(lines), err)
	}
	for _, call := range a.calls {
		if strings.HasPrefix(call, "apply") {
			t.Errorf("%s, though the stage is refused", call)
		}
	}
}

// A fault that does not show again in a second look is told, too, while another object is awaited.
func TestApplyTellsAPassingFault(t *testing.T) {
	a := newAPI(obj("v1", "ConfigMap/a/leaving", leaving))
	a.faults["apply ConfigMap/a/x"] = errors.New("connection reset")
	got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{obj("v1", "ConfigMap/a/leaving"), obj("v1", "ConfigMap/a/x")}})
	if err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("%+v, error %v", got, err)
	}
}

// P85: what can't be changed in place is recreated where that is asked for, and is an error where it is not.
func TestRecreate(t *testing.T) {
	const deleted, dryRuns = "delete %s uid=uid1 rv=1 Background", "dry-run %s"
	forced := annotated("force", "enabled")
	tests := map[string]struct {
		apiVersion, name string
		live             func(*unstructured.Unstructured)
		desired          func(*unstructured.Unstructured)
		force            bool
		faults           map[string]error
		wantDeleted      bool
		wantError        string
	}{
		"not asked for":             {apiVersion: "batch/v1", name: "Job/a/j", wantError: "dry-run failed (Invalid)"},
		"spec.force":                {apiVersion: "batch/v1", name: "Job/a/j", force: true, wantDeleted: true},
		"the manifest asks":         {apiVersion: "batch/v1", name: "Job/a/j", desired: forced, wantDeleted: true},
		"the live object asks":      {apiVersion: "batch/v1", name: "Job/a/j", live: forced, wantDeleted: true},
		"wrong in itself":           {apiVersion: "batch/v1", name: "Job/a/j", force: true, faults: map[string]error{"dry-run create Job/a/j": invalid("j")}, wantError: "dry-run failed (Invalid)"},
		"creating it is forbidden":  {apiVersion: "batch/v1", name: "Job/a/j", force: true, faults: map[string]error{"dry-run create Job/a/j": forbidden("j")}, wantError: "dry-run failed (Invalid)"},
		"refused for another cause": {apiVersion: "batch/v1", name: "Job/a/j", force: true, faults: map[string]error{"dry-run Job/a/j": forbidden("j")}, wantError: "dry-run failed (Forbidden)"},
		"a conflict is no cause":    {apiVersion: "batch/v1", name: "Job/a/j", force: true, faults: map[string]error{"dry-run Job/a/j": apierrors.NewConflict(schema.GroupResource{}, "j", errors.New("no"))}, wantError: "dry-run failed (Conflict)"},
		"claim, spec.force":         {apiVersion: "v1", name: "PersistentVolumeClaim/a/p", force: true, wantError: "spec.force never recreates a PersistentVolumeClaim"},
		"volume, spec.force":        {apiVersion: "v1", name: "PersistentVolume/p", force: true, wantError: "spec.force never recreates a PersistentVolume"},
		"namespace, spec.force":     {apiVersion: "v1", name: "Namespace/n", force: true, wantError: "spec.force never recreates a Namespace"},
		"definition, spec.force":    {apiVersion: "apiextensions.k8s.io/v1", name: "CustomResourceDefinition/t.example.com", force: true, wantError: "spec.force never recreates a CustomResourceDefinition"},
		"claim that asks itself":    {apiVersion: "v1", name: "PersistentVolumeClaim/a/p", desired: forced, wantDeleted: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live, desired := obj(tt.apiVersion, tt.name, of("1")), obj(tt.apiVersion, tt.name, of("2"))
			if tt.live != nil {
				tt.live(live)
			}
			if tt.desired != nil {
				tt.desired(desired)
			}
			a := newAPI(live)
			a.faults["dry-run "+tt.name] = invalid("it")
			for call, err := range tt.faults {
				a.faults[call] = err
			}
			got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{desired}, Force: tt.force})
			if tt.wantDeleted {
				if err != nil || len(got.Pending) != 1 || !strings.Contains(got.Pending[0], tt.name+" is recreated") {
					t.Errorf("%+v %v", got, err)
				}
				d, c := fmt.Sprintf(dryRuns, tt.name), "dry-run create "+tt.name
				wantCalls(t, a, d, d, c, fmt.Sprintf(deleted, tt.name))
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantError) {
				t.Errorf("error %v, want %s", err, tt.wantError)
			}
			for _, call := range a.calls {
				if strings.HasPrefix(call, "delete") {
					t.Errorf("%s", call)
				}
			}
		})
	}
}

// To recreate is to delete: without a word on the object itself only what names this Kustomization as its owner, and nothing whose
// metadata forbids to prune it.
func TestRecreateOnlyWhatIsOurs(t *testing.T) {
	owned := func(name, namespace string) map[string]string {
		return map[string]string{v1.OwnerNameLabel: name, v1.OwnerNamespaceLabel: namespace}
	}
	const prefix = v1.ControlPrefix
	for name, tt := range map[string]struct {
		labels, annotations map[string]string
		wantError           string
	}{
		"ours":                          {labels: owned("shop", "flux-system")},
		"of another Kustomization":      {labels: owned("mall", "flux-system"), wantError: "its labels don't name Kustomization/flux-system/shop"},
		"of one in another namespace":   {labels: owned("shop", "apps"), wantError: "its labels don't name Kustomization/flux-system/shop"},
		"of nobody":                     {wantError: "its labels don't name Kustomization/flux-system/shop"},
		"of nobody, and it asks itself": {annotations: map[string]string{prefix + "force": "enabled"}},
		"not to be pruned": {labels: owned("shop", "flux-system"), annotations: map[string]string{prefix + "prune": "disabled"},
			wantError: "its metadata says prune: disabled"},
		"not to be pruned, though it asks itself": {labels: owned("shop", "flux-system"), wantError: "its metadata says prune: disabled",
			annotations: map[string]string{prefix + "prune": "Disabled", prefix + "force": "enabled"}},
	} {
		t.Run(name, func(t *testing.T) {
			live := obj("batch/v1", "Job/a/j", of("1"))
			live.SetLabels(tt.labels)
			live.SetAnnotations(tt.annotations)
			a := newAPI(live)
			a.faults["dry-run Job/a/j"] = invalid("it")
			_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Owner: client.ObjectKey{Namespace: "flux-system", Name: "shop"},
				Objects: []*unstructured.Unstructured{obj("batch/v1", "Job/a/j", of("2"))}, Force: true})
			if deleted := len(a.objects) == 0; deleted != (tt.wantError == "") {
				t.Errorf("deleted %t: %v", deleted, err)
			}
			if tt.wantError != "" && (err == nil || !strings.Contains(err.Error(), tt.wantError)) {
				t.Errorf("error %v, want %s", err, tt.wantError)
			}
		})
	}
}

// A new object that is refused has nothing to be deleted.
func TestRecreateNeedsALiveObject(t *testing.T) {
	a := newAPI()
	a.faults["dry-run Job/a/j"] = invalid("j")
	_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Objects: []*unstructured.Unstructured{obj("batch/v1", "Job/a/j")}, Force: true})
	if err == nil {
		t.Error("no error")
	}
	wantCalls(t, a, "dry-run Job/a/j", "dry-run Job/a/j")
}

// P95: no more dry-runs at a time than that, however many objects there are, and no fewer.
func TestApplyDryRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		var mu sync.Mutex
		busy, seen := 0, 0
		release := make(chan struct{})
		a := newAPI()
		e := a.executor()
		e.Concurrency = most
		e.Client = interceptor.NewClient(scopes{}, interceptor.Funcs{Get: a.get, Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if isDryRun(opts) {
				mu.Lock()
				busy++
				seen = max(seen, busy)
				mu.Unlock()
				<-release
				mu.Lock()
				busy--
				mu.Unlock()
			}
			return a.patch(ctx, c, obj, p, opts...)
		}})
		var objects []*unstructured.Unstructured
		for i := range 4 * most {
			objects = append(objects, obj("v1", fmt.Sprintf("ConfigMap/a/x%d", i)))
		}
		done := make(chan error)
		go func() {
			_, err := e.Apply(t.Context(), execute.ApplyRequest{Objects: objects})
			done <- err
		}()
		for range objects {
			synctest.Wait() // until whoever may ask has asked
			release <- struct{}{}
		}
		if err := <-done; err != nil || seen != most {
			t.Errorf("%d at a time, want %d: %v", seen, most, err)
		}
	})
}

func isDryRun(opts []client.PatchOption) bool {
	var o client.PatchOptions
	o.ApplyOptions(opts)
	return len(o.DryRun) > 0
}
