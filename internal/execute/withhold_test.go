package execute_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// What the API server says about a Secret quotes its values, and errors are read by people who may not read the Secret.
func TestValuesOfSecretsAreWithheld(t *testing.T) {
	const value = "hunter2"
	tests := map[string]struct {
		err   error
		parts []string
	}{
		"type": {apierrors.NewBadRequest(`failed to create typed patch object (a/s; /v1, Kind=Secret): .stringData.pin: expected string, got &value.valueUnstructured{Value:"hunter2"}`),
			[]string{"Secret/a/s", "BadRequest", ".stringData.pin: expected string"}},
		"invalid": {apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{field.Invalid(field.NewPath("data").Key("pin"), value, "bad "+value)}),
			[]string{"Secret/a/s", "Invalid", "data[pin]"}},
		"webhook": {apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("password hunter2 is weak")),
			[]string{"Secret/a/s", "Forbidden"}},
		"quota": {apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s",
			errors.New("exceeded quota: none, requested: secrets=1, used: secrets=0, limited: secrets=0")),
			[]string{"Secret/a/s", "exceeded quota: none", "limited: secrets=0"}},
		"like a quota": {apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s",
			errors.New("exceeded quota: none, requested: secrets=1 for hunter2")), []string{"Secret/a/s", "Forbidden"}},
		"immutable": {apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{
			field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"),
			field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")}),
			[]string{"Secret/a/s", "Invalid", "immutable: Forbidden: ", "data: Forbidden: field is immutable when `immutable` is set"}},
		"immutable, and more": {apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{
			field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"), field.Forbidden(field.NewPath("data"), value)}),
			[]string{"Secret/a/s", "Invalid", "because of data"}},
		"no status": {errors.New("can't encode hunter2"), []string{"Secret/a/s"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI()
			a.faults["dry-run Secret/a/s"] = tt.err
			_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{
				Owner: client.ObjectKey{Namespace: "flux-system", Name: "app"}, Objects: []*unstructured.Unstructured{obj("v1", "Secret/a/s")}})
			if err == nil || strings.Contains(err.Error(), value) {
				t.Fatalf("%v", err)
			}
			for _, part := range tt.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
		})
	}
}

// A webhook sees what is deleted, and may quote it.
func TestValuesOfADeletedSecretAreWithheld(t *testing.T) {
	s := obj("v1", "Secret/a/s")
	a := newAPI(s)
	a.faults["delete Secret/a/s"] = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("hunter2 is needed"))
	got := a.executor().Delete(t.Context(), deletions(a.seen(s)...), mapper())[0]
	if got.Outcome != execute.DeleteFailed || got.Err == nil || strings.Contains(got.Err.Error(), "hunter2") || !strings.Contains(got.Err.Error(), "Secret/a/s delete failed") {
		t.Errorf("%v %v", got.Outcome, got.Err)
	}
}

// A refusal names the causes one by one, too. Whoever takes the error apart finds the fields, and no value.
func TestCausesOfARefusalAreWithheld(t *testing.T) {
	refusal := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", field.ErrorList{
		field.Invalid(field.NewPath("data").Key("pin"), "hunter2", "hunter2 is not encoded")})
	var answer apierrors.APIStatus
	if !errors.As(execute.Withheld(refusal, obj("v1", "Secret/a/s")), &answer) {
		t.Fatal("the reason is lost")
	}
	text, err := json.Marshal(answer.Status())
	if err != nil || strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), `"field":"data[pin]"`) {
		t.Errorf("%s %v", text, err)
	}
	if !strings.Contains(refusal.Status().Details.Causes[0].Message, "hunter2") {
		t.Error("the refusal itself was changed")
	}
}
