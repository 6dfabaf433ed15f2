package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
)

// P75: what does not differ from its manifest is not written, whoever asks, and whatever others add to it.
func TestParityOfWhatDoesNotDiffer(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	rev := s.push(map[string]string{"a.yaml": configMap("a", "1"),
		"sa.yaml":  "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: app, labels: {team: shop}}\n",
		"svc.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: app}\nspec: {ports: [{port: 80}]}\n"})
	s.follow()
	s.deploy("app")
	s.awaitReady("app", rev)
	named := metav1.ObjectMeta{Namespace: s.namespace, Name: "app"}
	account, service := &corev1.ServiceAccount{ObjectMeta: named}, &corev1.Service{ObjectMeta: named}
	s.patchAs("neighbour", account, `{"metadata":{"annotations":{"neighbour":"1"}}}`)
	versions := map[client.Object]string{s.cm("a"): "", account: "", service: ""}
	for object := range versions {
		s.stays(object)
		versions[object] = object.GetResourceVersion()
	}
	s.request("app")
	for object, version := range versions {
		if s.stays(object); object.GetResourceVersion() != version {
			t.Errorf("%T was written without need: %v", object, object.GetManagedFields())
		}
	}
	s.patchAs("neighbour", account, `{"metadata":{"labels":{"team":"mall"}}}`)
	s.request("app")
	if s.stays(account); account.Labels["team"] != "shop" || account.Annotations["neighbour"] != "1" {
		t.Errorf("after a change of a label that is in the manifest: %v, %v", account.Labels, account.Annotations)
	}
	if s.stays(service); service.ResourceVersion != versions[service] {
		t.Error("the change of one object had another one written")
	}
}

// P77, P78: a definition that nobody knew at the start, a namespace and what needs them are one artifact and one reconciliation.
func TestParityOfDefinitions(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group, other := uniqueName("widgets")+".example.com", uniqueName("made")
	rev := s.push(map[string]string{
		"a.yaml": inNamespace(other, widget(group, "first", "1")), "crd.yaml": widgetCRD(group),
		"ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + other + "}\n",
	})
	t.Cleanup(func() {
		for _, o := range []client.Object{
			&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}},
		} {
			// The test's own context has ended by now.
			if err := client.IgnoreNotFound(kube.Delete(context.Background(), o)); err != nil {
				t.Errorf("delete %s: %v", o.GetName(), err)
			}
		}
	})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "" })
	ks := s.awaitReady("app", rev)
	if h := ks.Status.History; len(h) != 1 || h[0].TotalReconciliations != 1 || h[0].LastReconciledStatus != "ReconciliationSucceeded" {
		t.Errorf("the history is %+v", h)
	}
	for _, created := range []string{"CustomResourceDefinition/widgets." + group, "Namespace/" + other, "Widget/" + other + "/first"} {
		s.awaitEvent("app", "Normal", "Progressing", created+" created")
	}
	var ids []string
	for _, e := range ks.Status.Inventory.Entries {
		ids = append(ids, e.ID)
	}
	want := fmt.Sprintf("[_widgets.%[1]s_apiextensions.k8s.io_CustomResourceDefinition _%[2]s__Namespace %[2]s_first_%[1]s_Widget]", group, other)
	if fmt.Sprint(ids) != want {
		t.Errorf("the inventory is %v, want %s", ids, want)
	}
}

// P77, P96: a Pod that names no requests is refused by a quota until there is a LimitRange, also when all three are new. What it needs
// comes first in the inventory too.
func TestParityOfQuotas(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	rev := s.push(map[string]string{
		"config.yaml": configMap("a", "1"),
		"quota.yaml":  "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: all}\nspec: {hard: {requests.cpu: '1'}}\n",
		"limit.yaml": "apiVersion: v1\nkind: LimitRange\nmetadata: {name: each}\n" +
			"spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}}]}\n",
		"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: main, image: example/one:1}]}\n",
	})
	s.follow()
	s.deploy("app", unwaited)
	ks := s.awaitReady("app", rev)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "one"}}
	if s.stays(pod); pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "100m" {
		t.Errorf("the pod requests %v", pod.Spec.Containers[0].Resources.Requests)
	}
	var ids []string
	for _, e := range ks.Status.Inventory.Entries {
		ids = append(ids, e.ID)
	}
	if want := []string{s.id("ResourceQuota", "all"), s.id("LimitRange", "each"), s.cmID("a"), s.id("Pod", "one")}; !slices.Equal(ids, want) {
		t.Errorf("the inventory is %v, want %v", ids, want)
	}
}

// P79: an account that may not escalate can't bind a role that is not there yet; with Role as a stage of its own it is.
func TestParityOfRoles(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	h := s.run()
	s.grant("tenant", s.namespace, "*")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "may-grant"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "update", "delete"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: "tenant"}}}
	create(t, role, binding)
	rev := s.push(map[string]string{
		"binding.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: reader}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}\nsubjects: [{kind: ServiceAccount, name: default, namespace: " + s.namespace + "}]\n",
		"role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\n" +
			"rules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}]\n",
	})
	s.follow()
	s.deploy("app", as("tenant"))
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "RoleBinding/"+s.namespace+"/reader not found: ", `"reader" not found`)
	h.stop(t)
	s.run(func(o *app.Options) {
		o.Kustomization.CustomApplyStageKinds = []schema.GroupKind{{Group: rbacv1.GroupName, Kind: "Role"}}
	})
	s.awaitReady("app", rev)
}

// P85: a Secret that may not be changed is an error in Flux's words until spec.force, or the Secret, allows to recreate it.
func TestParityOfForce(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	secret := func(value, metadata string) map[string]string {
		return map[string]string{"a.yaml": fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: a%s}\nimmutable: true\nstringData: {k: %q}\n", metadata, value)}
	}
	live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "a"}}
	rev := s.push(secret("1", ""))
	s.follow()
	s.deploy("app")
	s.awaitReady("app", rev)
	first := s.uid(live)
	rev = s.push(secret("2", ""))
	refused := "Secret/" + s.namespace + "/a dry-run failed (Invalid): Secret \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", refused)
	s.awaitEvent("app", "Warning", "ReconciliationFailed", refused)
	s.sameUID(live, first)
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Force = true })
	s.awaitReady("app", rev)
	second := s.uid(live)
	if second == first || string(live.Data["k"]) != "2" {
		t.Errorf("it was not recreated: %v", live.Data)
	}
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Force = false })
	rev = s.push(secret("3", ", annotations: {kustomize.toolkit.fluxcd.io/force: Enabled}"))
	s.awaitReady("app", rev)
	if third := s.uid(live); third == second || string(live.Data["k"]) != "3" {
		t.Errorf("it was not recreated: %v", live.Data)
	}
}

// P92: the gate moves what any manager wrote to the version of the manifest; without it, theirs stay as they are.
func TestParityOfAPIVersions(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	h := s.run()
	named := metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}
	scaler := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: named, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
		MaxReplicas: 5, ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "none"}}}
	if err := kube.Create(t.Context(), scaler, client.FieldOwner("neighbour")); err != nil {
		t.Fatal(err)
	}
	files := func(most string) map[string]string {
		return map[string]string{"a.yaml": "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n" +
			"spec: {maxReplicas: " + most + ", scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}\n"}
	}
	versionsOf := func(manager string) (versions []string) {
		t.Helper()
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(scaler), scaler); err != nil {
			t.Fatal(err)
		}
		for _, m := range scaler.ManagedFields {
			if m.Manager == manager && m.Subresource == "" {
				versions = append(versions, m.APIVersion)
			}
		}
		return versions
	}
	rev := s.push(files("6"))
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", rev)
	if got := versionsOf("neighbour"); fmt.Sprint(got) != "[autoscaling/v1]" {
		t.Errorf("without the gate: %v", got)
	}
	h.stop(t)
	s.run(func(o *app.Options) { o.Kustomization.MigrateAPIVersion = true })
	rev = s.push(files("7"))
	s.awaitReady("app", rev)
	for _, manager := range []string{"neighbour", "kustomize-controller"} {
		if got := versionsOf(manager); fmt.Sprint(got) != "[autoscaling/v2]" {
			t.Errorf("with the gate %s has %v", manager, got)
		}
	}
}

// P97: what was applied is in the inventory while its health is checked, skipped objects too. P98: another version of a kind is
// the same object. P94: an apply that failed forgets nothing of it, and adds what it was about to create.
func TestParityOfInventory(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	scaler := func(version, most string) string {
		return "apiVersion: autoscaling/" + version + "\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n" +
			"spec: {maxReplicas: " + most + ", scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n"
	}
	files := map[string]string{"a.yaml": configMap("a", "1"), "skipped.yaml": annotated("skipped", "ssa: Ignore"), "hpa.yaml": scaler("v1", "5")}
	rev := s.push(files)
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", rev)
	hpa := &unstructured.Unstructured{}
	hpa.SetAPIVersion("autoscaling/v2")
	hpa.SetKind("HorizontalPodAutoscaler")
	hpa.SetNamespace(s.namespace)
	hpa.SetName("web")
	uid, id := s.uid(hpa), s.id("autoscaling/HorizontalPodAutoscaler", "web")

	files["hpa.yaml"], files["web.yaml"] = scaler("v2", "5"), deployment("web", missingImage, "")
	rev = s.push(files)
	s.change("app", func(ks *v1.Kustomization) {
		ks.Spec.HealthChecks = []fluxmeta.NamespacedObjectKindReference{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: s.namespace, Name: "web"}}
	})
	ks := s.awaitMessage("app", "Reconciling", metav1.ConditionTrue, "Progressing", "Running health checks for revision "+rev)
	if err := inInventory(ks, s.cmID("a"), s.cmID("skipped"), id, s.id("apps/Deployment", "web")); err != nil {
		t.Error(err)
	}
	for _, e := range ks.Status.Inventory.Entries {
		if e.ID == id && e.Version != "v2" {
			t.Errorf("its version is %s", e.Version)
		}
	}
	s.sameUID(hpa, uid)

	s.change("app", func(ks *v1.Kustomization) { ks.Spec.HealthChecks = nil })
	delete(files, "a.yaml")
	files["b.yaml"] = configMap("b", "1")
	files["svc.yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 700000}]}\n"
	s.push(files)
	ks = s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ReconciliationFailed", "Service/"+s.namespace+"/web dry-run failed (Invalid): ")
	if err := inInventory(ks, s.cmID("a"), s.cmID("b"), s.cmID("skipped"), id, s.id("apps/Deployment", "web")); err != nil {
		t.Error(err)
	}
	s.stays(s.cm("a"))
	if err := isGone(t.Context(), s.cm("b")); err != nil {
		t.Errorf("of a refused stage: %v", err)
	}
}

// P124: dependencies are looked at once the source has an artifact, and before it is fetched, in the namespace that is named or
// else that of the Kustomization.
func TestParityOfDependencies(t *testing.T) {
	t.Parallel()
	s, c := newBeside(t, sourcev1.GitRepositoryKind)
	other := newNamespace(t)
	s.deploy("app", following(sourcev1.GitRepositoryKind), func(ks *v1.Kustomization) {
		ks.Spec.DependsOn = []fluxv1.DependencyReference{{Name: "near"}, {Name: "far", Namespace: other}}
	})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "ArtifactFailed", "Source artifact not found, retrying in 1s")
	a := c.store("/a.tar.gz", "main@sha1:1", map[string]string{"a.yaml": configMap("a", "1")})
	s.offer(sourcev1.GitRepositoryKind, a)
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+s.namespace+"/near' not found: ")
	near := s.deploy("near", func(ks *v1.Kustomization) { ks.Spec.Suspend, ks.Spec.Prune = true, false })
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+s.namespace+"/near' is not ready")
	s.declareReady(near, "main@sha1:0")
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+s.namespace+"/near' revision is not up to date")
	s.declareReady(near, "main@sha1:1")
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "DependencyNotReady", "dependency '"+other+"/far' not found: ")
	s.awaitEvent("app", "Normal", "DependencyNotReady", "Dependencies do not meet ready condition, retrying in 1s")
	if n := c.requests(); n != 0 {
		t.Errorf("the artifact was fetched %d times before the dependencies were ready", n)
	}
	far := near.DeepCopy()
	far.ObjectMeta = metav1.ObjectMeta{Namespace: other, Name: "far"}
	far.Spec.SourceRef.Name = "of its own"
	create(t, far)
	s.declareReady(far, "main@sha1:0") // it has another source, so that its revision does not count
	s.awaitReady("app", "main@sha1:1")
	if n := c.requests(); n == 0 {
		t.Error("the artifact was not fetched")
	}
}

// declareReady writes the status of a Kustomization that nobody reconciles.
func (s *scenario) declareReady(ks *v1.Kustomization, revision string) {
	s.t.Helper()
	eventually(s.t, within, "the status of "+ks.Name+" is written", func(ctx context.Context) error {
		found := &v1.Kustomization{}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(ks), found); err != nil {
			return err
		}
		found.Status.ObservedGeneration, found.Status.LastAppliedRevision = found.Generation, revision
		found.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "ReconciliationSucceeded",
			Message: "Applied revision: " + revision, LastTransitionTime: metav1.Now(), ObservedGeneration: found.Generation}}
		return kube.Status().Update(ctx, found)
	})
}

// P122, P133, P135: with the gate a check that is given up is reported as such, with what triggered that, for a revision and for a
// request.
func TestParityOfACanceledCheck(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(o *app.Options) { o.Kustomization.TellCanceledChecks = true })
	var mu sync.Mutex
	var seen []string
	var state *v1.Kustomization
	s.watchKustomizations(func(ks *v1.Kustomization) {
		mu.Lock()
		defer mu.Unlock()
		if c := apimeta.FindStatusCondition(ks.Status.Conditions, "Ready"); c != nil && c.Reason == "HealthCheckCanceled" && state == nil {
			state = ks.DeepCopy()
		}
		for _, m := range messages(ks) {
			if !slices.Contains(seen, m) {
				seen = append(seen, m)
			}
		}
	})
	rev := s.push(map[string]string{"web.yaml": deployment("web", missingImage, "")})
	s.follow()
	s.deploy("web")
	checking := func(revision string) {
		t.Helper()
		s.awaitMessage("web", "Healthy", metav1.ConditionUnknown, "Progressing", "Running health checks for revision "+revision)
	}
	canceled := func(by string) {
		t.Helper()
		s.awaitEvent("web", "Normal", "HealthCheckCanceled", "Health checks canceled due to new reconciliation triggered by "+by)
		eventually(t, within, "the condition said so, too", func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(seen, "Ready=False HealthCheckCanceled: New reconciliation triggered by "+by) {
				return fmt.Errorf("only\n%s", strings.Join(seen, "\n"))
			}
			return nil
		})
	}
	checking(rev)
	s.request("web")
	canceled("Kustomization/" + s.namespace + "/web")
	mu.Lock()
	compareGolden(t, "HealthCheckCanceled", s.golden(state, nil))
	mu.Unlock()
	checking(rev)
	rev = s.push(map[string]string{"web.yaml": deployment("web", goodImage, "")})
	canceled("GitRepository/" + s.namespace + "/app")
	ks := s.awaitReady("web", rev)
	for _, h := range ks.Status.History {
		if h.LastReconciledStatus == "HealthCheckCanceled" { // P140
			t.Errorf("the history is %+v", ks.Status.History)
		}
	}
}
