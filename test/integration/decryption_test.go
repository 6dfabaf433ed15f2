package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	sopskeys "github.com/getsops/sops/v3/keys"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/testkit/sopsfile"
)

// C46, P53, P57, P59, P64: an encrypted env file in a base and an encrypted Secret arrive plain; encrypting them again changes
// nothing; without the key nothing is applied and nothing is pruned.
func TestC46Decryption(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	identity, recipient := sopsfile.AgeKey(t)
	seal := func(format, plain string) string {
		o := sopsfile.Options{Format: format, Keys: []sopskeys.MasterKey{sopsfile.Age(t, recipient)}}
		if format == "yaml" {
			o.EncryptedRegex = "^(data|stringData)$"
		}
		return sopsfile.Encrypt(t, o, plain)
	}
	tree := func() map[string]string {
		return map[string]string{
			"kustomization.yaml":      "resources: [base, secret.yaml]\n",
			"base/kustomization.yaml": "secretGenerator:\n- {name: app, envs: [app.env]}\n",
			"base/app.env":            seal("dotenv", "password=hunter2\n"),
			"secret.yaml":             seal("yaml", "apiVersion: v1\nkind: Secret\nmetadata:\n    name: whole\nstringData:\n    password: hunter3\n"),
		}
	}
	rev := s.push(tree())
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) {
		ks.Spec.Decryption = &fluxv1.Decryption{Provider: "sops", SecretRef: &meta.LocalObjectReference{Name: "keys"}}
	})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", `secrets "keys" not found`) // P54
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "keys", Labels: map[string]string{"reconcile.fluxcd.io/watch": "Enabled"}},
		StringData: map[string]string{"age.agekey": identity}})
	ks := s.awaitReady("app", rev)
	before := s.secrets()
	if len(before) != 2 || string(before["whole"].Data["password"]) != "hunter3" {
		t.Fatalf("%v", before)
	}
	digest := ks.Status.History[0].Digest

	rev = s.push(tree())
	ks = s.awaitReady("app", rev)
	after := s.secrets()
	for name, secret := range before {
		if after[name].ResourceVersion != secret.ResourceVersion {
			t.Errorf("C46 a: %s was written again", name)
		}
	}
	if ks.Status.History[0].Digest != digest || len(after) != 2 {
		t.Errorf("C46 a: another build, %v", after)
	}

	_, other := sopsfile.AgeKey(t)
	s.push(map[string]string{"secret.yaml": sopsfile.Encrypt(t, sopsfile.Options{Format: "yaml", EncryptedRegex: "^stringData$", Keys: []sopskeys.MasterKey{sopsfile.Age(t, other)}},
		"apiVersion: v1\nkind: Secret\nmetadata:\n    name: whole\nstringData:\n    password: hunter4\n")})
	s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", "decryption failed for 'Secret.v1.[noGrp]/whole': ", "cannot get sops data key") // P72, C46 c
	if left := s.secrets(); len(left) != 2 {
		t.Errorf("C46 c: pruned to %v", left)
	}
	s.noEventHas("app", "hunter")
	s.nothingOnDisk("hunter")
}

// secrets are the Secrets of the scenario's namespace that the Kustomization "app" manages, by name; generated ones without hash.
func (s *scenario) secrets() map[string]corev1.Secret {
	s.t.Helper()
	list := &corev1.SecretList{}
	if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace), client.MatchingLabels{"kustomize.toolkit.fluxcd.io/name": "app"}); err != nil {
		s.t.Fatal(err)
	}
	found := map[string]corev1.Secret{}
	for _, secret := range list.Items {
		found[secret.Name] = secret
	}
	return found
}

// nothingOnDisk checks that no working copy with a text is left in the temporary directory.
func (s *scenario) nothingOnDisk(text string) {
	s.t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "kustomization-*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, dir := range left {
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil //nolint:nilerr // it went meanwhile
			}
			if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), text) {
				s.t.Errorf("%s holds what was decrypted", path)
			}
			return nil
		})
	}
}

// C43: what can't be applied is refused before any write of the revision, naming object, field and file, and nothing is pruned.
func TestC43Refusals(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	good := map[string]string{"a.yaml": configMap("a", "1"), "old.yaml": configMap("old", "1")}
	rev := s.push(good)
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", rev)
	changed := configMap("a", "2")
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {a: b}, ports: [{name: x, port: 80}, {name: y, port: 80, protocol: TCP}]}\n"
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"C43 a env twice":        {strings.Replace(deployment("web", goodImage, ""), "image:", "env: [{name: A, value: x}, {name: A, value: y}]\n        image:", 1), []string{"Deployment/" + s.namespace + "/web", "containers[0].env", "name A", "bad.yaml"}},
		"C43 b port twice":       {service, []string{"Service/" + s.namespace + "/web", "spec.ports", "port 80", "bad.yaml"}},
		"C43 c generateName":     {"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: run-}\nspec: {}\n", []string{"Job/", "metadata.generateName", "bad.yaml"}},
		"C43 d item of a List":   {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n- {apiVersion: v1, kind: ConfigMap}\n", []string{"bad.yaml"}},
		"C43 e one id two files": {configMap("a", "3"), []string{"ConfigMap/a", "a.yaml", "bad.yaml"}},
	} {
		s.awaitAttempt("app", s.push(map[string]string{"a.yaml": changed, "bad.yaml": tt.file}))
		s.awaitMessage("app", "Ready", metav1.ConditionFalse, "BuildFailed", tt.want...)
		if v := s.configMap("a").Data["k"]; v != "1" {
			t.Errorf("%s: the rest of the revision was applied: %s", name, v)
		}
		s.stays(s.cm("old"))
	}
	rev = s.push(map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems:\n" + item(configMap("a", "4")) + item(configMap("b", "4")) + item(configMap("old", "4"))})
	ks := s.awaitReady("app", rev)
	for _, name := range []string{"a", "b", "old"} {
		if !inventoryIDs(ks)[s.cmID(name)] {
			t.Errorf("C43 d: %s of a good List is not in the inventory", name)
		}
	}
}

// item makes a manifest an item of a List.
func item(manifest string) string {
	return "- " + strings.ReplaceAll(strings.TrimSpace(manifest), "\n", "\n  ") + "\n"
}

// C50 c: objects that a generator marks as not to be pruned stay through any number of edits, and status counts them.
func TestC50GeneratorWithPruneDisabled(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	tree := func(i int) map[string]string {
		return map[string]string{"kustomization.yaml": fmt.Sprintf("configMapGenerator:\n- {name: app, literals: ['k=%d']}\n"+
			"generatorOptions: {annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}}\n", i)}
	}
	rev := s.push(tree(0))
	s.follow()
	s.deploy("app", unwaited)
	s.awaitReady("app", rev)
	const edits = 10
	for i := 1; i <= edits; i++ {
		rev = s.push(tree(i))
		s.awaitReady("app", rev)
	}
	ks := s.await("app", "keeping ten", func(ks *v1.Kustomization) error {
		n := 0
		for _, r := range ks.Status.Rollout.Retained {
			if r.Reason == v1.RetainedPruneDisabled {
				n++
			}
		}
		if n != edits {
			return fmt.Errorf("%d are kept", n)
		}
		return conditionIs(ks.Status.Conditions, "Ready", metav1.ConditionTrue)
	})
	if n := len(inventoryIDs(ks)); n != edits+1 {
		t.Errorf("%d entries, want %d", n, edits+1)
	}
	found, err := s.configMaps(t.Context(), "app-")
	if err != nil || len(found) != edits+1 {
		t.Errorf("%d ConfigMaps are there, %v", len(found), err)
	}
}
