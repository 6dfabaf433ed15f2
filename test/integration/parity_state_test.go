package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sopskeys "github.com/getsops/sops/v3/keys"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/app"
	"github.com/holdfast-gitops/holdfast/internal/testkit/sopsfile"
)

// P141: finalizer and status are written under the name of Flux's manager, and what others say in the conditions stays.
func TestParityOfStatusWrites(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	runHoldfast(t, s.namespace)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app")
	ks := s.awaitReady("app", r1)
	for _, field := range []string{"f:finalizers", "f:conditions", "f:inventory", "f:lastAppliedRevision"} {
		i := slices.IndexFunc(ks.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.FieldsV1 != nil && strings.Contains(string(m.FieldsV1.Raw), `"`+field+`"`)
		})
		if i < 0 || ks.ManagedFields[i].Manager != "gotk-kustomize-controller" || ks.ManagedFields[i].Operation != metav1.ManagedFieldsOperationUpdate {
			t.Errorf("%s is managed by %+v", field, ks.ManagedFields)
		}
	}
	patch := client.MergeFrom(ks.DeepCopy())
	foreign := metav1.Condition{Type: "Audited", Status: metav1.ConditionTrue, Reason: "Looked", Message: "by hand", ObservedGeneration: ks.Generation,
		LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0))}
	ks.Status.Conditions = append(ks.Status.Conditions, foreign)
	if err := kube.Status().Patch(t.Context(), ks, patch, client.FieldOwner("auditor")); err != nil {
		t.Fatal(err)
	}
	r2 := s.push(map[string]string{"a.yaml": configMap("a", "2")})
	ks = s.awaitReady("app", r2)
	if kept := meta.FindStatusCondition(ks.Status.Conditions, "Audited"); kept == nil || kept.Message != "by hand" || !kept.LastTransitionTime.Equal(&foreign.LastTransitionTime) {
		t.Errorf("the condition of another is %+v", kept)
	}
}

// P147: with the label, whatever a Kustomization names in decryption, kubeConfig or substituteFrom is taken at once when it appears, an
// optional one and one of a failed build too. Neither the interval nor the retry comes within this test.
func TestParityOfWatchedConfigs(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	identity, recipient := sopsfile.AgeKey(t)
	rev := s.push(map[string]string{
		"plain/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '${k:=default}'}\n",
		"sealed/s.yaml": sopsfile.Encrypt(t, sopsfile.Options{Format: "yaml", EncryptedRegex: "^stringData$", Keys: []sopskeys.MasterKey{sopsfile.Age(t, recipient)}},
			"apiVersion: v1\nkind: Secret\nmetadata:\n    name: s\nstringData:\n    k: v\n"),
	})
	s.follow()
	slow := func(ks *v1.Kustomization) {
		ks.Spec.NamePrefix = ks.Name + "-"
		ks.Spec.Interval.Duration, ks.Spec.RetryInterval.Duration = time.Hour, time.Hour
	}
	s.deploy("optional", slow, at("./plain"), func(ks *v1.Kustomization) {
		ks.Spec.PostBuild = &fluxv1.PostBuild{SubstituteStrategy: "Always", SubstituteFrom: []fluxv1.SubstituteReference{{Kind: "ConfigMap", Name: "vars", Optional: true}}}
	})
	s.deploy("remote", slow, at("./plain"), on("kube", ""))
	s.deploy("sealed", slow, at("./sealed"), func(ks *v1.Kustomization) {
		ks.Spec.Decryption = &fluxv1.Decryption{Provider: "sops", SecretRef: &fluxmeta.LocalObjectReference{Name: "keys"}}
	})
	s.awaitReady("optional", rev)
	s.valueIs("optional-a", "default")
	s.awaitMessage("remote", "Ready", metav1.ConditionFalse, "ReconciliationFailed", `secrets "kube" not found`)
	s.awaitMessage("sealed", "Ready", metav1.ConditionFalse, "BuildFailed", `secrets "keys" not found`)

	watched := func(o client.Object) client.Object {
		o.SetLabels(map[string]string{"reconcile.fluxcd.io/watch": "Enabled"})
		return o
	}
	s.admin("remote")
	create(t, watched(s.secret("kube", "value", s.kubeConfigOf("remote"))), watched(s.secret("keys", "a.agekey", identity)),
		watched(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "vars"}, Data: map[string]string{"k": "set"}}))
	s.valueIs("optional-a", "set")
	s.awaitReady("remote", rev)
	s.awaitReady("sealed", rev)
	if err := kube.Delete(t.Context(), s.cm("vars")); err != nil {
		t.Fatal(err)
	}
	s.valueIs("optional-a", "default")
}

// P152: a deletion that waits for its objects gives up at the timeout, says so, and goes.
func TestParityOfTerminationTimeout(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": replaceOnce(configMap("a", "1"), "{name: a}", "{name: a, finalizers: [example.com/held]}")})
	s.follow()
	s.deploy("app", func(ks *v1.Kustomization) {
		ks.Spec.DeletionPolicy, ks.Spec.Timeout.Duration = fluxv1.DeletionPolicyWaitForTermination, 30*time.Second
	})
	ks := s.awaitReady("app", r1)
	if err := kube.Delete(t.Context(), ks); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, ks)
	e := s.awaitEvent("app", "Warning", "ReconciliationFailed", "failed to wait for resources termination")
	if e.Annotations["kustomize.toolkit.fluxcd.io/revision"] != r1 {
		t.Errorf("the event is annotated %v, want the revision that was applied last", e.Annotations)
	}
	s.removeFinalizers(s.cm("a"))
	eventuallyGone(t, within, s.cm("a"))
}

// P153: suspended, or without an inventory, a Kustomization goes and deletes nothing.
func TestParityOfDeletionWithNothingToDo(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "empty/kustomization.yaml": "resources: []\n"})
	s.follow()
	s.deploy("suspended", at("./a"))
	s.deploy("empty", at("./empty"))
	s.awaitReady("suspended", r1)
	s.awaitReady("empty", r1)
	s.change("suspended", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	for _, name := range []string{"suspended", "empty"} {
		ks := s.mustGet(name)
		if err := kube.Delete(t.Context(), ks); err != nil {
			t.Fatal(err)
		}
		eventuallyGone(t, within, ks)
	}
	s.stays(s.cm("a"))
}

// P166: what a build reads is read with the controller's own rights, also where an account without them applies the result.
func TestParityOfReferencesAndRights(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	identity, recipient := sopsfile.AgeKey(t)
	rev := s.push(map[string]string{"a.yaml": sopsfile.Encrypt(t, sopsfile.Options{Format: "yaml", EncryptedRegex: "^data$", Keys: []sopskeys.MasterKey{sopsfile.Age(t, recipient)}},
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n    name: a\ndata:\n    k: ${zone}\n")})
	s.follow()
	create(t, s.secret("vars", "zone", "north"), s.secret("keys", "a.agekey", identity))
	s.grant("tenant", s.namespace, "*") // ConfigMaps only
	s.deploy("app", as("tenant"), func(ks *v1.Kustomization) {
		ks.Spec.PostBuild = &fluxv1.PostBuild{SubstituteFrom: []fluxv1.SubstituteReference{{Kind: "Secret", Name: "vars"}}}
		ks.Spec.Decryption = &fluxv1.Decryption{Provider: "sops", SecretRef: &fluxmeta.LocalObjectReference{Name: "keys"}}
	})
	s.awaitReady("app", rev)
	s.valueIs("a", "north")
}

// P181: a shard looks after the Kustomizations and GitRepositories that its selector selects, from when to when they have the label.
func TestParityOfShards(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.checkConformance()
	const selector = "sharding.fluxcd.io/key=a"
	shard, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	runHoldfast(t, s.namespace, func(o *app.Options) {
		o.ShardSelector, o.Kustomization.Shard, o.Source.Shard = selector, shard, shard
	})
	r1 := s.push(map[string]string{"a/a.yaml": configMap("a", "1"), "b/b.yaml": configMap("b", "1")})
	s.follow()
	ours := map[string]string{"sharding.fluxcd.io/key": "a"}
	s.deploy("theirs", at("./b"))
	s.deploy("ours", at("./a"), func(ks *v1.Kustomization) { ks.Labels = ours })
	s.awaitMessage("ours", "Ready", metav1.ConditionFalse, "ArtifactFailed", "no controller has looked at GitRepository/"+s.namespace+"/app")
	source := newSource(s.namespace, "GitRepository")
	label := func(object client.Object, labels map[string]string) {
		t.Helper()
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		patch := client.MergeFrom(object.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // a copy of an object is one
		object.SetLabels(labels)
		if err := kube.Patch(t.Context(), object, patch); err != nil {
			t.Fatal(err)
		}
	}
	label(source, ours)
	s.awaitReady("ours", r1)
	theirs := s.mustGet("theirs")
	if len(theirs.Finalizers) > 0 || len(theirs.Status.Conditions) > 0 {
		t.Errorf("one of another shard was worked on: %v, %v", theirs.Finalizers, theirs.Status.Conditions)
	}
	label(theirs, ours)
	s.awaitReady("theirs", r1)
	label(theirs, nil)
	r2 := s.push(map[string]string{"a/a.yaml": configMap("a", "2"), "a/old.yaml": configMap("old", "1"), "b/b.yaml": configMap("b", "2")})
	s.awaitReady("ours", r2)
	if got := s.mustGet("theirs").Status.LastAttemptedRevision; got != r1 {
		t.Errorf("one that left the shard attempted %s", got)
	}

	// What leaves the source is deleted when those that are left to Flux have built the revision, as Flux tells it.
	s.deploy("never-ours", at("./b"), func(ks *v1.Kustomization) { ks.Spec.NamePrefix = "never-" })
	r3 := s.push(map[string]string{"a/a.yaml": configMap("a", "2"), "b/b.yaml": configMap("b", "2")})
	s.awaitHeldFor("ours", "never-ours has not built "+r3)
	s.readyByFlux("never-ours", r3)
	s.awaitHeldFor("ours", "theirs has not built "+r3)
	s.stays(s.cm("old"))
	s.readyByFlux("theirs", r3)
	eventuallyGone(t, within, s.cm("old"))
	s.stays(s.cm("a"), s.cm("b"))

	// So is what a Kustomization leaves when it is deleted.
	if err := kube.Delete(t.Context(), s.mustGet("ours")); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, within, s.cm("a"))
	eventuallyGone(t, within, &v1.Kustomization{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ours"}})
	s.stays(s.cm("b"))
}

// awaitHeldFor waits until one object is kept, for a reason that says so.
func (s *scenario) awaitHeldFor(name, message string) {
	s.t.Helper()
	s.await(name, "keeping an object since "+message, func(ks *v1.Kustomization) error {
		if r := ks.Status.Rollout.Retained; len(r) != 1 || r[0].Reason != v1.RetainedMovedElsewhere || !strings.Contains(r[0].Message, message) {
			return fmt.Errorf("it keeps %+v", r)
		}
		return nil
	})
}

// readyByFlux writes the status that kustomize-controller writes at the end of a reconciliation.
func (s *scenario) readyByFlux(name, revision string) {
	s.t.Helper()
	ks := s.mustGet(name)
	patch := client.MergeFrom(ks.DeepCopy())
	ks.Status.ObservedGeneration, ks.Status.LastAppliedRevision, ks.Status.LastAttemptedRevision = ks.Generation, revision, revision
	meta.SetStatusCondition(&ks.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "ReconciliationSucceeded",
		Message: "Applied revision: " + revision, ObservedGeneration: ks.Generation})
	if err := kube.Status().Patch(s.t.Context(), ks, patch, client.FieldOwner(v1.StatusManager)); err != nil {
		s.t.Fatal(err)
	}
}

// P148: while it is suspended nothing is fetched or applied, and a request changes nothing but what says that it was handled; resuming
// runs at once.
func TestParityOfSuspend(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	r1 := s.push(map[string]string{"a.yaml": configMap("a", "1")})
	s.follow()
	s.deploy("app", every(time.Hour))
	s.awaitReady("app", r1)
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Suspend = true })
	before := s.mustGet("app").Status
	r2 := s.push(map[string]string{"a.yaml": configMap("a", "2")})
	eventually(t, within, "the source has the new revision", func(ctx context.Context) error {
		return s.sourceIsAt(ctx, r2)
	})
	after := s.request("app").Status
	before.LastHandledReconcileAt = after.LastHandledReconcileAt
	if got, want := asJSON(t, after), asJSON(t, before); got != want {
		t.Errorf("the status is\n%s\nwant\n%s", got, want)
	}
	if cm := s.configMap("a"); cm.Data["k"] != "1" {
		t.Error("it was applied")
	}
	s.change("app", func(ks *v1.Kustomization) { ks.Spec.Suspend = false })
	s.awaitReady("app", r2)
}

// sourceIsAt returns nil if the scenario's GitRepository has a revision.
func (s *scenario) sourceIsAt(ctx context.Context, revision string) error {
	source := newSource(s.namespace, "GitRepository")
	if err := kube.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
		return err
	}
	offered, ok := source.(interface{ GetArtifact() *fluxmeta.Artifact })
	switch {
	case !ok || offered.GetArtifact() == nil:
		return errors.New("it has no artifact")
	case offered.GetArtifact().Revision != revision:
		return fmt.Errorf("it is at %s", offered.GetArtifact().Revision)
	}
	return nil
}
