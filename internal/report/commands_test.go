package report_test

import (
	"bytes"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

// child is a Kustomization that another one applies out of Git, with or without spec.suspend.
func child(suspended bool, fields string) *v1.Kustomization {
	k := ks("shop", func(k *v1.Kustomization) {
		k.Spec.Suspend = suspended
		k.Labels = map[string]string{v1.OwnerNameLabel: "apps", v1.OwnerNamespaceLabel: "flux-system"}
		k.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1.ApplyManager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(fields)}}
	})
	return &k
}

// prints compares the text of answers with the golden files, and their JSON with the one named by json.
func prints(t *testing.T, answers map[string]text, options report.TextOptions) {
	t.Helper()
	options.Now = now
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := answer.WriteText(&got, options); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", got.Bytes())
		})
	}
}

func printsJSON(t *testing.T, name string, answer any) {
	t.Helper()
	got, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, name+".json", append(got, '\n'))
}

func TestSuspensionText(t *testing.T) {
	sets, silent := `{"f:spec":{"f:suspend":{}}}`, `{"f:spec":{"f:path":{}}}`
	alone, stopped := ks("shop"), ks("shop", func(k *v1.Kustomization) { k.Spec.Suspend = true })
	some := report.Suspensions{Kustomizations: []report.Suspension{report.SuspensionOf(&alone, true), report.SuspensionOf(child(false, silent), true)}}
	prints(t, map[string]text{
		"suspend":              report.SuspensionOf(&alone, true),
		"suspend_again":        report.SuspensionOf(&stopped, true),
		"suspend_again_parent": report.SuspensionOf(child(true, silent), true),
		"suspend_parent":       report.SuspensionOf(child(false, silent), true),
		"suspend_parent_sets":  report.SuspensionOf(child(false, sets), true),
		"resume":               report.SuspensionOf(child(true, silent), false),
		"resume_parent_sets":   report.SuspensionOf(child(true, sets), false),
		"resume_nothing":       report.SuspensionOf(child(false, silent), false),
		"suspend_all":          some,
		"resume_all_nothing":   report.Suspensions{Sought: true, Where: "team"},
		"suspend_all_nothing":  report.Suspensions{Where: "team"},
	}, report.TextOptions{})
	printsJSON(t, "suspend", some)
	if some.Err() != nil {
		t.Error("all were written")
	}
	some.Failed = []string{"Kustomization team/web changed in this moment"}
	if err := some.Err(); err == nil || err.Error() != "1 not written: Kustomization team/web changed in this moment" {
		t.Error(err)
	}
}
