package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestValuesOfSecretsAreNotTold: whatever is wrong with a Secret, its values are in no condition, no event and no log.
func TestValuesOfSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	bad := map[string]string{
		"number":    head + "stringData: {pin: 90210777}\n",
		"nested":    head + "data: {pin: {x: hunter2}}\n",
		"immutable": head + "immutable: hunter2\n",
		"base64":    head + "data: {pin: 'hunter2!'}\n",
		"unknown":   head + "foo: bar\nstringData: {pin: 90210777}\n",
	}
	s := newScenario(t)
	process := startProcess(t, s.namespace, env.Kubeconfig)
	files := map[string]string{"literal/kustomization.yaml": "secretGenerator: [{name: s, literals: ['hunter2']}]\n"}
	for name, manifest := range bad {
		files[name+"/s.yaml"] = manifest
	}
	s.push(files)
	s.follow()
	var told strings.Builder
	for path := range files {
		name, _, _ := strings.Cut(path, "/")
		s.deploy(name, unwaited, at("./"+name))
		s.await(name, "is refused", func(ks *v1.Kustomization) error {
			return conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionFalse)
		})
		events, err := s.eventsOf(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&told, s.mustGet(name).Status, events)
	}
	log, err := os.ReadFile(process.log)
	if err != nil {
		t.Fatal(err)
	}
	told.Write(log)
	for _, value := range []string{"hunter2", "90210777"} {
		if at := strings.Index(told.String(), value); at >= 0 {
			t.Errorf("%s is told: %s", value, told.String()[max(0, at-300):at+len(value)])
		}
	}
}
