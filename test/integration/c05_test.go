package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// TestC05: an admission rule refuses the deletion. The object used to drop out of the inventory, an orphan for ever; here
// it stays, the others go, the message is the rule's, and it goes when the rule does, without a commit (P103).
func TestC05(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.push(map[string]string{
		"a.yaml": replaceOnce(configMap("a", "1"), "{name: a}", "{name: a, labels: {hold: \"yes\"}}"),
		"b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
	})
	s.follow()
	s.deploy("app")
	s.awaitCondition("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	allow := s.deny("DELETE", "configmaps", "!has(oldObject.metadata.labels) || !('hold' in oldObject.metadata.labels)", "kept for the auditors")
	eventually(t, within, "the policy is in force", func(ctx context.Context) error {
		if err := kube.Delete(ctx, s.cm("a"), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "auditors") {
			return errors.Join(errors.New("the deletion is accepted"), err)
		}
		return nil
	})
	s.push(map[string]string{"c.yaml": configMap("c", "1")})
	eventuallyGone(t, within, s.cm("b"))
	ks := s.awaitMessage("app", "Ready", metav1.ConditionFalse, "PruneFailed",
		"delete failed, errors: ", "ConfigMap/"+s.namespace+"/a", "kept for the auditors")
	if err := inInventory(ks, s.cmID("a"), s.cmID("c")); err != nil {
		t.Error(err)
	}
	kept := s.awaitRetained("app", s.cmID("a"), v1.RetainedDeleteFailed)
	if !strings.Contains(kept.Message, "kept for the auditors") {
		t.Errorf("status says %q", kept.Message)
	}
	s.awaitEvent("app", "Warning", "PruneFailed", "ConfigMap/"+s.namespace+"/a", "kept for the auditors")
	s.stays(s.cm("a"))
	allow()
	eventuallyGone(t, within, s.cm("a"))
	s.awaitDropped("app", s.cmID("a"))
	s.awaitCondition("app", "Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

// deny installs an admission policy for the scenario's namespace that refuses an operation unless a CEL expression holds.
// The function that it returns removes the policy.
func (s *scenario) deny(operation, resource, unless, message string) (allow func()) {
	s.t.Helper()
	name := uniqueName("deny")
	groups, versions := []string{""}, []string{"v1"}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.OperationType(operation)},
					Rule:       admissionv1.Rule{APIGroups: groups, APIVersions: versions, Resources: []string{resource}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: unless, Message: message}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	allow = func() {
		// It is a cleanup too, after the test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, o := range []client.Object{binding, policy} {
			if err := client.IgnoreNotFound(kube.Delete(ctx, o)); err != nil {
				s.t.Errorf("remove the policy: %v", err)
			}
		}
	}
	s.t.Cleanup(allow)
	create(s.t, policy, binding)
	return allow
}

func replaceOnce(text, from, to string) string { return strings.Replace(text, from, to, 1) }
