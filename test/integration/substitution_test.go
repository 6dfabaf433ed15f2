package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// Variables from a ConfigMap, a Secret and the spec (P43, P44, P45), and what happens when they change: a change of a labelled
// object is taken at once (P222), one of another at the next pass.
func TestPostBuild(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	labelled := map[string]string{"reconcile.fluxcd.io/watch": "Enabled"}
	vars := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "vars", Labels: labelled}, Data: map[string]string{"zone": "\na\n", "name": "x"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "secret-vars", Labels: labelled}, StringData: map[string]string{"zone": "hunter2"}}
	create(t, vars)
	rev := s.push(map[string]string{
		"app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {k: '${zone}-${name}-${inline}-${other:=d}', script: 'echo $$ $HOME ${1}'}\n"})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) {
		ks.Spec.PostBuild = &fluxv1.PostBuild{
			Substitute: map[string]string{"inline": "i", "name": "y"},
			SubstituteFrom: []fluxv1.SubstituteReference{
				{Kind: "ConfigMap", Name: "vars"}, {Kind: "Secret", Name: "secret-vars"}, {Kind: "Secret", Name: "none", Optional: true}},
		}
	})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", "substitute from 'Secret/secret-vars' error: secrets \"secret-vars\" not found")

	create(t, secret)
	s.awaitReady("app", rev)
	s.valueIs("app", "hunter2-y-i-d")
	if cm := s.configMap("app"); cm.Data["script"] != "echo $$ $HOME ${1}" {
		t.Errorf("C47: the script is %q", cm.Data["script"])
	}

	secret.StringData = map[string]string{"zone": "hunter3"}
	if err := kube.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.valueIs("app", "hunter3-y-i-d")
	if err := kube.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", "secrets \"secret-vars\" not found")
	s.valueIs("app", "hunter3-y-i-d")

	s.change("app", func(ks *v1.Kustomization) { ks.Spec.PostBuild.SubstituteFrom = ks.Spec.PostBuild.SubstituteFrom[:1] })
	s.valueIs("app", "a-y-i-d")
	s.noEventHas("app", "hunter")
}

// C47, P50: a variable that nobody set fails the build, and a changed one inside of generated data is told of.
func TestC47VariablesInGeneratedData(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	files := map[string]string{"kustomization.yaml": "configMapGenerator:\n- name: app\n  literals: ['k=${zone}']\n"}
	rev := s.push(files)
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) {
		ks.Spec.PostBuild = &fluxv1.PostBuild{Substitute: map[string]string{"other": "x"}}
	})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", "post build failed for 'ConfigMap.v1.[noGrp]/app-", "variable not set", `"zone"`)
	if found, err := s.configMaps(t.Context(), "app-"); err != nil || len(found) > 0 {
		t.Errorf("applied: %v, %v", found, err)
	}
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.PostBuild.Substitute["zone"] = "one" })
	ks := s.awaitReady("app", rev)
	first := ks.Status.History[0].Digest
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.PostBuild.Substitute["zone"] = "two" })
	s.awaitEvent("app", "Normal", "Progressing", "ConfigMap/"+s.namespace+"/app-", " was changed under the same name")
	ks = s.await("app", "another build", func(ks *v1.Kustomization) error {
		if ks.Status.History[0].Digest == first {
			return fmt.Errorf("history is %v", ks.Status.History)
		}
		return conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue)
	})
	found, err := s.configMaps(t.Context(), "app-")
	if _, ok := found["two"]; err != nil || len(found) != 1 || !ok {
		t.Errorf("%v, %v", found, err)
	}
}

// configMap reads a ConfigMap of the scenario's namespace.
func (s *scenario) configMap(name string) *corev1.ConfigMap {
	s.t.Helper()
	cm := s.cm(name)
	if err := kube.Get(s.t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
		s.t.Fatal(err)
	}
	return cm
}

// valueIs waits until key k of a ConfigMap has a value.
func (s *scenario) valueIs(name, want string) {
	s.t.Helper()
	eventually(s.t, within, "ConfigMap "+name+" holds "+want, func(ctx context.Context) error {
		cm := s.cm(name)
		if err := kube.Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
			return err
		}
		if got := cm.Data["k"]; got != want {
			return fmt.Errorf("it holds %q", got)
		}
		return nil
	})
}

// noEventHas checks that a text is in no event and no condition of a Kustomization.
func (s *scenario) noEventHas(name, text string) {
	s.t.Helper()
	events, err := s.eventsOf(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if strings.Contains(e.Message, text) {
			s.t.Errorf("an event has %q: %s", text, e.Message)
		}
	}
	for _, c := range s.mustGet(name).Status.Conditions {
		if strings.Contains(c.Message, text) {
			s.t.Errorf("%s has %q: %s", c.Type, text, c.Message)
		}
	}
}
