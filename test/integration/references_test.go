package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// With reference rules a custom resource that somebody else made keeps what it names by a plain name, and a stale one that
// is kept keeps what it names in turn. All go with the last user.
func TestReferenceRules(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	group := uniqueName("refs") + ".example.com"
	database := "apiVersion: " + group + "/v1\nkind: Widget\nmetadata: {name: db}\nspec: {secrets: [{name: password}]}\n"
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: password}\n"
	keep := map[string]string{"crd.yaml": widgetCRD(group)}
	r1 := s.push(map[string]string{"crd.yaml": widgetCRD(group), "db.yaml": database, "secret.yaml": secret})
	s.follow()
	s.deploy("app", unwaited, func(ks *v1.Kustomization) {
		ks.Spec.Rollout = &v1.RolloutPolicy{References: []v1.ReferenceRule{
			{Group: group, Kind: "Widget", Path: "spec.secrets[*].name", TargetKind: "Secret"},
			{Group: group, Kind: "Widget", Path: "spec.database", TargetKind: "Widget"},
		}}
	})
	s.awaitReady("app", r1)
	user := newWidget(group, s.namespace, "user")
	user.Object["spec"] = map[string]any{"database": "db"}
	create(t, user)

	r2 := s.push(keep)
	s.awaitReady("app", r2)
	s.awaitUser("app", s.id(group+"/Widget", "db"), "Widget/"+s.namespace+"/user")
	s.awaitUser("app", s.id("Secret", "password"), "Widget/"+s.namespace+"/db")
	if err := kube.Delete(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, newWidget(group, s.namespace, "db"))
	eventuallyGone(t, within, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "password"}})
}

// A rule that can't be read stops everything and says why; one for a kind that nobody serves keeps what it speaks of.
func TestReferenceRulesThatAreWrong(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(configMapsTo(2))
	s.follow()
	s.deploy("app", annotate(v1.AnnotationReferences, "Widget.example.com:spec.names[0]=ConfigMap"))
	s.awaitMessage("app", "Stalled", metav1.ConditionTrue, v1.ReasonInvalidPolicy, `"Widget.example.com:spec.names[0]=ConfigMap"`, "[*] after a list")
	s.change("app", annotate(v1.AnnotationReferences, "Wigdet.example.com:spec.names[*]=ConfigMap"))
	s.awaitReady("app", r1)
	r2 := s.push(configMapsTo(1))
	s.awaitReady("app", r2)
	kept := s.awaitRetained("app", s.cmID("c1"), v1.RetainedUnverified)
	if !strings.Contains(kept.Message, "no kind Wigdet.example.com, which a rule of spec.rollout.references is for") {
		t.Errorf("the message is %q", kept.Message)
	}
	s.change("app", func(ks *v1.Kustomization) { delete(ks.Annotations, v1.AnnotationReferences) })
	eventuallyGone(t, within, s.cm("c1"))
}
