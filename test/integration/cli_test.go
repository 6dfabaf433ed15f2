package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inquiry"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// What status and why say while a release is healthy, broken, given up, repaired and suspended.
func TestStatusAndWhyFollowARelease(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Timeout = &metav1.Duration{Duration: 25 * time.Second} })
	s.awaitReady("web", r1)
	q := newInquirer(t, env.Config)
	first := s.onlyConfigMap("1")
	says(t, s.status(q), "web", "Healthy", report.Short(r1), "GitRepository/app", "1 in all: 1 healthy.")
	says(t, s.why(q, "cm/"+first.Name), "is wanted by Kustomization "+s.namespace+"/web", "USED BY")
	says(t, s.why(q, "deploy/web"), "Deployment "+s.namespace+"/web is wanted by")

	r2 := s.push(webApp("2", missingImage))
	s.awaitAttempt("web", r2)
	s.awaitRetained("web", inventoryID(first), v1.RetainedAwaitingHealth)
	says(t, s.why(q, "ConfigMap/"+first.Name), "is kept by Kustomization "+s.namespace+"/web", "AwaitingHealth", report.Short(r2)+" is healthy", "ReplicaSet")

	s.awaitCondition("web", "Ready", metav1.ConditionFalse, "HealthCheckFailed")
	says(t, s.status(q), "Held", report.Short(r1), report.Short(r2), "Deployment "+s.namespace+"/web")
	says(t, s.why(q, "web"), "is held", "ImagePull", missingImage, "2 pods of the former revision ready", first.Name, "push a fix")

	says(t, s.why(q, "pod/"+s.somePod()), "was made by Deployment "+s.namespace+"/web, which Kustomization "+s.namespace+"/web has")
	says(t, s.why(q, "gitrepository/"+sourceName), "SOURCE", "offers "+report.Short(r2), "FOLLOWED BY", s.namespace+"/web")

	r3 := s.push(webApp("3", goodImage))
	s.awaitReady("web", r3)
	s.suspend("web")
	says(t, s.status(q), "Paused")
	says(t, s.why(q, "ks/web"), "is paused", "holdfast resume web")
}

// What was kept and then deleted by hand is not called safe, and without a verdict of the release the old pods are not
// said to serve the broken revision.
func TestWhyLooksWhetherTheKeptIsThere(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	h := runHoldfast(t, s.namespace)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web", func(ks *v1.Kustomization) { ks.Spec.Wait = false })
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	eventually(t, within, "the first revision is seen healthy", func(ctx context.Context) error {
		ks, err := s.get(ctx, "web")
		if err == nil && (ks.Status.Rollout == nil || ks.Status.Rollout.LastHealthy == nil) {
			err = errors.New("it is not")
		}
		return err
	})
	r2 := s.push(webApp("2", missingImage))
	s.awaitAttempt("web", r2)
	s.awaitRetained("web", inventoryID(first), v1.RetainedAwaitingHealth)
	q := newInquirer(t, env.Config)
	eventually(t, within, "the old pods are told to serve the first revision", func(context.Context) error {
		if text := s.why(q, "web"); !strings.Contains(text, "they serve "+report.Short(r1)) {
			return errors.New(text)
		}
		return nil
	})
	h.stop(t) // it would take the object off the list
	if err := kube.Delete(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	says(t, s.why(q, "web"), "GONE: ConfigMap "+s.namespace+"/"+first.Name, "refer", "a revert to "+report.Short(r1)+" creates it again")
	says(t, s.why(q, "cm/"+first.Name), "GONE", "USED BY", "ReplicaSet")
}

// A ConfigMap that a pod outside of the source uses is kept after the release, and why names the pod.
func TestWhyNamesTheUsersOfAKeptObject(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")})
	s.follow()
	s.deploy("web")
	s.awaitReady("web", r1)
	create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "stranger"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: goodImage, EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "b"}}},
		}}}},
	})
	r2 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.awaitReady("web", r2)
	s.awaitRetained("web", s.namespace+"_b__ConfigMap", v1.RetainedInUse)
	q := newInquirer(t, env.Config)
	says(t, s.why(q, "cm/b"), "is kept by", "InUse", "Pod "+s.namespace+"/stranger", "nothing that runs refers to it")
	says(t, s.why(q, "pod/stranger"), "is not managed by any Kustomization")
	says(t, s.status(q), "Healthy", "1 object kept from pruning, none needs you")

	answer, err := q.Why(t.Context(), "cm/b", s.namespace)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := answer.(report.ObjectAnswer)
	if !ok || kept.Retained == nil || !sameJSON(t, *kept.Retained, s.mustGet("web").Status.Rollout.Retained[0]) {
		t.Errorf("the answer does not hold the record of the status: %+v", kept)
	}
}

// What helps is read from the words of the API server and of the build: they are the real ones here.
func TestWhyFindsTheStepThatHelps(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web")
	s.awaitReady("web", r1)
	q := newInquirer(t, env.Config)
	s.deploy("lost", func(ks *v1.Kustomization) { ks.Spec.TargetNamespace = "no-such-place" })
	s.awaitCondition("lost", "Ready", metav1.ConditionFalse, "ReconciliationFailed")
	says(t, s.why(q, "lost"), "create the namespace (kubectl create namespace no-such-place)")
	immutable := webApp("1", goodImage)
	for name, content := range immutable {
		immutable[name] = strings.ReplaceAll(content, "matchLabels: {app: web}", "matchLabels: {app: web, tier: front}")
		immutable[name] = strings.ReplaceAll(immutable[name], "labels: {app: web}", "labels: {app: web, tier: front}")
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		says  []string
	}{
		{name: "kind", says: []string{"does not serve kind Widget"}, files: map[string]string{
			"a.yaml": "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n"}},
		{name: "immutable", says: []string{"spec.force: true", "pods ready"}, files: immutable},
	} {
		revision := s.push(test.files)
		s.awaitAttempt("web", revision)
		eventually(t, within, "why names the step for "+test.name, func(context.Context) error {
			text := s.why(q, "web")
			for _, part := range test.says {
				if !strings.Contains(text, part) {
					return errors.New(text)
				}
			}
			return nil
		})
	}
}

// Questions that can't be answered say why, with the exit code for it.
func TestWhyRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	q := newInquirer(t, env.Config)
	for question, want := range map[string]struct {
		code int
		says string
	}{
		"cm/none":              {2, "no ConfigMap none in namespace " + namespace},
		"nosuchkind/none":      {64, `serves no kind "nosuchkind"`},
		"none":                 {2, "no Kustomization none"},
		"ks/none":              {2, "no Kustomization none"},
		"deployments.apps/nix": {2, "no Deployment nix"},
	} {
		_, err := q.Why(t.Context(), question, namespace)
		coded, ok := err.(interface{ ExitCode() int })
		if !ok || coded.ExitCode() != want.code || !strings.Contains(err.Error(), want.says) {
			t.Errorf("why %s: %v, want exit code %d and %q", question, err, want.code, want.says)
		}
	}
}

// With rights on Kustomizations alone, status and why answer and say which rights are missing for more.
func TestQuestionsNeedOnlyKustomizations(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(webApp("1", goodImage))
	s.follow()
	s.deploy("web")
	s.awaitReady("web", r1)
	first := s.onlyConfigMap("1")
	q := newInquirer(t, s.readerOfKustomizations())
	says(t, s.status(q), "web", "Healthy", report.Short(r1), "note: the right to list gitrepositories")
	says(t, s.why(q, "cm/"+first.Name), "is wanted by", "note: the right to get configmaps")
	says(t, s.why(q, "web"), "is healthy")
	_, err := q.Status(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "ask for the verbs get and list on kustomizations") {
		t.Errorf("status in all namespaces: %v", err)
	}
}

// readerOfKustomizations is a connection that may read the Kustomizations of the scenario's namespace and nothing else.
func (s *scenario) readerOfKustomizations() *rest.Config {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "reader"}
	create(s.t,
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1.GroupVersion.Group}, Resources: []string{"kustomizations"}, Verbs: []string{"get", "list"}}}},
		&rbacv1.RoleBinding{ObjectMeta: *meta.DeepCopy(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: s.namespace + "-reader"}}})
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = s.namespace + "-reader"
	config.Impersonate.Groups = []string{"system:authenticated"}
	return config
}

// somePod is the name of a pod of the scenario.
func (s *scenario) somePod() string {
	s.t.Helper()
	list := &corev1.PodList{}
	if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil || len(list.Items) == 0 {
		s.t.Fatalf("no pod: %v", err)
	}
	return list.Items[0].Name
}

// suspend sets spec.suspend.
func (s *scenario) suspend(name string) {
	s.t.Helper()
	eventually(s.t, within, name+" is suspended", func(ctx context.Context) error {
		ks, err := s.get(ctx, name)
		if err != nil {
			return err
		}
		ks.Spec.Suspend = true
		return kube.Update(ctx, ks)
	})
}

func newInquirer(t *testing.T, config *rest.Config) *inquiry.Inquirer {
	t.Helper()
	q, err := inquiry.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// status is the text of `holdfast status` for the scenario's namespace.
func (s *scenario) status(q *inquiry.Inquirer) string {
	s.t.Helper()
	answer, err := q.Status(s.t.Context(), s.namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	return textOf(s.t, answer)
}

// why is the text of `holdfast why`.
func (s *scenario) why(q *inquiry.Inquirer, question string) string {
	s.t.Helper()
	answer, err := q.Why(s.t.Context(), question, s.namespace)
	if err != nil {
		s.t.Fatalf("why %s: %v", question, err)
	}
	return textOf(s.t, answer)
}

func textOf(t *testing.T, answer inquiry.Answer) string {
	t.Helper()
	var b bytes.Buffer
	if err := answer.WriteText(&b, report.TextOptions{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the answer does not say %q:\n%s", part, text)
		}
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}
