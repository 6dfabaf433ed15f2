package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// plan is what `holdfast plan` says of a Kustomization of the scenario.
func (s *scenario) plan(q *inquiry.Inquirer, question inquiry.PlanQuestion) report.Plan {
	s.t.Helper()
	question.Namespace = s.namespace
	var err error
	if question.Options, err = app.DefaultOptions(); err != nil {
		s.t.Fatal(err)
	}
	plan, err := q.Plan(s.t.Context(), question)
	if err != nil {
		s.t.Fatalf("plan: %v", err)
	}
	return plan
}

// checkout is a directory with files.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tryout is how many random changes of a repository are planned and then made, unless HOLDFAST_TEST_PLAN_PAIRS says otherwise.
const tryout = 12

// What plan says of a random change is what the controller then does: nothing else is created, changed, replaced or deleted.
func TestPlanEqualsDeed(t *testing.T) {
	t.Parallel()
	pairs, seed := tryout, uint64(1)
	if text := os.Getenv("HOLDFAST_TEST_PLAN_PAIRS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		pairs, seed = n, rand.Uint64()
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	q := newInquirer(t, env.Config)
	s.awaitReadyAfter("app", s.push(randomTree(random, 0)), func() {
		s.follow()
		s.deploy("app")
	})
	for i := 1; i <= pairs; i++ {
		files := randomTree(random, i)
		dir := checkout(t, files)
		var before map[string]*unstructured.Unstructured
		var plan report.Plan
		eventually(t, within, "a plan of what is at rest", func(ctx context.Context) error {
			before = s.owned(ctx)
			plan = s.plan(q, inquiry.PlanQuestion{Name: "app", Path: dir})
			if after := s.owned(ctx); before == nil || after == nil || len(differing(before, after)) > 0 {
				return errors.New("what an earlier change left was pruned meanwhile")
			}
			return nil
		})
		revision := s.push(files)
		if err := s.decided("app", revision, plan); err != nil {
			t.Fatalf("change %d: %v\n%s", i, err, planText(t, plan))
		}
		var last error
		eventually(t, within, fmt.Sprintf("change %d is as it was planned", i), func(ctx context.Context) error {
			last = asPlanned(plan, before, s.owned(ctx))
			if last != nil {
				last = fmt.Errorf("%w\nplan:\n%s", last, planText(t, plan))
			}
			return last
		})
	}
}

func (s *scenario) awaitReadyAfter(name, revision string, begin func()) {
	begin()
	s.awaitReady(name, revision)
}

func planText(t *testing.T, plan report.Plan) string {
	t.Helper()
	plan.Diff = true
	return textOf(t, plan)
}

// decided waits until a revision is healthy, or refused if that was planned.
func (s *scenario) decided(name, revision string, plan report.Plan) error {
	if !plan.Fails() {
		s.awaitReady(name, revision)
		return nil
	}
	ks := s.await(name, "refused at "+revision, func(ks *v1.Kustomization) error {
		ready := apimeta.FindStatusCondition(ks.Status.Conditions, "Ready")
		if ks.Status.LastAttemptedRevision != revision || ready == nil || ready.Status != "False" {
			return fmt.Errorf("it tried %s: %v", ks.Status.LastAttemptedRevision, ready)
		}
		return nil
	})
	message := apimeta.FindStatusCondition(ks.Status.Conditions, "Ready").Message
	for _, o := range plan.Objects {
		if o.Action == report.PlanRefuse && !strings.Contains(message, o.ID) {
			return fmt.Errorf("%s was to be refused, and the controller says %s", o.ID, message)
		}
	}
	return nil
}

// owned are the objects of the scenario's namespace that have an owner, by Kind/namespace/name.
func (s *scenario) owned(ctx context.Context) map[string]*unstructured.Unstructured {
	s.t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, gvk := range []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "ServiceAccount"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"}} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := kube.List(ctx, list, client.InNamespace(s.namespace), client.HasLabels{v1.OwnerNameLabel}); err != nil {
			s.t.Logf("list %s: %v", gvk.Kind, err)
			return nil
		}
		for i := range list.Items {
			found[fmt.Sprintf("%s/%s/%s", gvk.Kind, s.namespace, list.Items[i].GetName())] = &list.Items[i]
		}
	}
	return found
}

// decidedByManifest is what a manifest may decide of an object.
func decidedByManifest(obj *unstructured.Unstructured) string {
	out := obj.DeepCopy()
	delete(out.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	return fmt.Sprint(out.Object)
}

// asPlanned says what of a deed differs from its plan. Where something was to be refused, what was planned may be done in part.
func asPlanned(plan report.Plan, before, after map[string]*unstructured.Unstructured) error {
	if after == nil {
		return errors.New("not all could be listed")
	}
	planned := map[string]report.PlannedObject{}
	for _, o := range plan.Objects {
		if former, ok := planned[o.ID]; ok {
			return fmt.Errorf("%s is planned twice: %s and %s", o.ID, former.Action, o.Action)
		}
		planned[o.ID] = o
	}
	var faults []error
	done := differing(before, after)
	for id := range planned {
		if done[id] == "" {
			done[id] = "nothing"
		}
	}
	for id, did := range done {
		o := planned[id]
		if !slices.Contains(allowed(o), did) && (!plan.Fails() || did != "nothing") {
			faults = append(faults, fmt.Errorf("%s: planned %q %v, done: %s", id, o.Action, o.Fields, did))
		}
	}
	return errors.Join(faults...)
}

// differing says what was done to the objects that are not as they were.
func differing(before, after map[string]*unstructured.Unstructured) map[string]string {
	done := map[string]string{}
	for _, set := range []map[string]*unstructured.Unstructured{before, after} {
		for id := range set {
			if did := deed(before[id], after[id]); did != "nothing" {
				done[id] = did
			}
		}
	}
	return done
}

func deed(before, after *unstructured.Unstructured) string {
	switch {
	case before == nil && after == nil:
		return "nothing"
	case before == nil:
		return "created"
	case after == nil:
		return "deleted"
	case before.GetUID() != after.GetUID():
		return "replaced"
	case decidedByManifest(before) != decidedByManifest(after):
		return "changed"
	}
	return "nothing"
}

// allowed is what may come of a plan for an object.
func allowed(o report.PlannedObject) []string {
	switch o.Action {
	case report.PlanCreate, report.PlanRename:
		return []string{"created"}
	case report.PlanChange:
		if len(o.Fields) == 0 {
			return []string{"nothing"}
		}
		return []string{"changed"}
	case report.PlanReplace:
		return []string{"replaced"}
	case report.PlanPrune:
		return []string{"deleted"}
	case report.PlanKeep:
		if o.Reason == v1.RetainedInUse {
			return []string{"nothing", "deleted"} // its users may go with the rollout
		}
	default:
	}
	return []string{"nothing"}
}

// What plan says of a push, of a revision, of a file and of the source as it is, and what the controller then does.
func TestPlanSaysWhatAPushDoes(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	first := webApp("1", goodImage)
	first["old.yaml"] = configMap("old", "1")
	first["kustomization.yaml"] = strings.Replace(first["kustomization.yaml"], "[web.yaml]", "[web.yaml, old.yaml]", 1)
	s.awaitReadyAfter("web", s.push(first), func() {
		s.follow()
		s.deploy("web")
	})
	q := newInquirer(t, env.Config)
	if plan := s.plan(q, inquiry.PlanQuestion{Name: "web"}); plan.Changes() || plan.Fails() || plan.Unchanged != 3 {
		t.Errorf("the source as it is: %s", planText(t, plan))
	}

	next := webApp("2", "registry.example/web:2")
	dir := checkout(t, next)
	plan := s.plan(q, inquiry.PlanQuestion{Name: "web", Path: dir})
	text := textOf(t, plan)
	says(t, text, "1 changed, 1 renamed, 1 to prune, 1 kept", "~ Deployment "+s.namespace+"/web", "rolls 2 pods",
		"> ConfigMap "+s.namespace+"/app", "1 key: k", "- ConfigMap "+s.namespace+"/old", "pruned once this revision is healthy", "InUse")
	if !plan.Changes() || plan.Fails() || len(plan.Alarms([]report.PlanAlarm{report.AlarmPrune})) != 1 {
		t.Errorf("changes %t, fails %t: %s", plan.Changes(), plan.Fails(), text)
	}

	sha, err := s.git.CommitTree(repoName, "feature", next, "next")
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{sha, "feature"} {
		other := s.plan(q, inquiry.PlanQuestion{Name: "web", Revision: revision})
		if !strings.Contains(other.To, sha) || !sameJSON(t, other.Objects, plan.Objects) {
			t.Errorf("revision %s: %s", revision, planText(t, other))
		}
	}

	file := filepath.Join(t.TempDir(), "ks.yaml")
	manifest := fmt.Sprintf(`apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: second, namespace: %s}
spec: {interval: 1h, prune: true, path: ./, targetNamespace: %[1]s, namePrefix: b-, sourceRef: {kind: GitRepository, name: app}}
`, s.namespace)
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, textOf(t, s.plan(q, inquiry.PlanQuestion{File: file})), s.namespace+"/second: does not exist yet", "3 new. 0 the same.", "+ ConfigMap "+s.namespace+"/b-old")
	if _, err := s.get(t.Context(), "second"); err == nil {
		t.Error("the plan created the Kustomization")
	}
	if got := len(s.owned(t.Context())); got != 3 {
		t.Errorf("the plans left %d objects, want 3", got)
	}
}

// All that is wrong with a revision is told at once, by the plan and by the controller, whatever the stage in which it is met.
func TestAllErrorsOfARevisionAtOnce(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	files := map[string]string{
		"role.yaml":    "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: bad}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Nothing, name: x}\n",
		"service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: 99999}]}\n",
		"config.yaml":  configMap("Bad_Name", "1"),
		"good.yaml":    configMap("good", "1"),
	}
	revision := s.push(files)
	s.follow()
	s.deploy("app")
	want := []string{"RoleBinding/" + s.namespace + "/bad", "Service/" + s.namespace + "/bad", "ConfigMap/" + s.namespace + "/Bad_Name"}
	s.awaitAttempt("app", revision)
	says(t, s.awaitCondition("app", "Ready", "False", "ReconciliationFailed"), want...)
	plan := s.plan(newInquirer(t, env.Config), inquiry.PlanQuestion{Name: "app"})
	for _, id := range want {
		if !slices.ContainsFunc(plan.Objects, func(o report.PlannedObject) bool { return o.ID == id && o.Action == report.PlanRefuse }) {
			t.Errorf("%s is not refused: %s", id, planText(t, plan))
		}
	}
	if len(s.owned(t.Context())) > 0 {
		t.Error("something was applied")
	}
}

// Who may only read gets a plan by comparison, which says so; and who may not read what is compared is told that.
func TestPlanWithFewRights(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	first := webApp("1", goodImage)
	first["secret.yaml"] = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hunter2}\n"
	first["kustomization.yaml"] = strings.Replace(first["kustomization.yaml"], "[web.yaml]", "[web.yaml, secret.yaml]", 1)
	s.awaitReadyAfter("web", s.push(first), func() {
		s.follow()
		s.deploy("web")
	})
	q := newInquirer(t, s.viewer())
	plan := s.plan(q, inquiry.PlanQuestion{Name: "web", Path: checkout(t, first)})
	if plan.Unchanged != 2 || plan.Fails() {
		t.Errorf("nothing changed: %s", planText(t, plan))
	}
	says(t, textOf(t, plan), "? Secret "+s.namespace+"/s", "cannot get resource", "not seen: what other Kustomizations have")

	first["web.yaml"] = strings.Replace(first["web.yaml"], goodImage, "registry.example/web:2", 1)
	says(t, textOf(t, s.plan(q, inquiry.PlanQuestion{Name: "web", Path: checkout(t, first)})),
		"~ Deployment "+s.namespace+"/web", `image: "registry.example/web:1" -> "registry.example/web:2"`, "rolls 2 pods", "not dry-run: you may not dry-run it")
}

// viewer is a connection that may read Kustomizations, sources, ConfigMaps and workloads of the scenario's namespace, and write nothing.
func (s *scenario) viewer() *rest.Config {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "viewer"}
	create(s.t,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Verbs: []string{"get", "list"},
			Resources: []string{"kustomizations", "gitrepositories", "configmaps", "deployments", "replicasets", "pods"}}}},
		&rbacv1.RoleBinding{ObjectMeta: *meta.DeepCopy(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: s.namespace + "-viewer"}}})
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = s.namespace + "-viewer"
	config.Impersonate.Groups = []string{"system:authenticated"}
	return config
}

// randomTree is a repository whose objects come, go and change from one call to the next.
func randomTree(r *rand.Rand, turn int) map[string]string {
	files := map[string]string{}
	var resources []string
	add := func(name, manifest string) {
		files[name+".yaml"] = manifest
		resources = append(resources, name+".yaml")
	}
	chance := func(n int) bool { return r.IntN(n) > 0 }
	for i := range 4 {
		if chance(3) {
			add(fmt.Sprintf("config-%d", i), configMap(fmt.Sprintf("config-%d", i), strconv.Itoa(r.IntN(2))))
		}
		if chance(3) {
			add(fmt.Sprintf("secret-%d", i), fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: secret-%d}\nstringData: {k: %q}\n", i, strconv.Itoa(r.IntN(2))))
		}
	}
	for _, own := range [][2]string{{"never", "kustomize.toolkit.fluxcd.io/prune: disabled"}, {"first", "holdfast.dev/prune: Immediate"},
		{"once", "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent"}, {"left", "kustomize.toolkit.fluxcd.io/ssa: Ignore"}} {
		if chance(3) {
			add(own[0], fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s}}\ndata: {k: \"%d\"}\n", own[0], own[1], r.IntN(2)))
		}
	}
	if chance(3) {
		add("account", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: account}\n")
	}
	port := 80 + r.IntN(2)
	if turn > 0 && !chance(6) {
		port = 99999 // refused
	}
	if chance(3) {
		add("service", fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: service}\nspec: {selector: {app: web}, ports: [{port: %d}]}\n", port))
	}
	for _, name := range []string{"job", "forced"} {
		if !chance(3) {
			continue
		}
		annotations := ""
		if name == "forced" {
			annotations = ", annotations: {kustomize.toolkit.fluxcd.io/force: enabled}"
		}
		version := 1 // a Job can't be changed in place
		if name == "forced" || !chance(4) {
			version = 1 + r.IntN(2)
		}
		add(name, fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s%s}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.example/job:exit0", env: [{name: V, value: "%d"}]}]
`, name, annotations, version))
	}
	generators := ""
	if chance(4) {
		add("web", deployment("web", goodImage, "\n        envFrom: [{configMapRef: {name: app}}]"))
		generators = fmt.Sprintf("configMapGenerator: [{name: app, literals: [k=%d]}]\n", r.IntN(3))
	}
	slices.Sort(resources)
	files["kustomization.yaml"] = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + strings.Join(resources, ", ") + "]\n" + generators
	return files
}
