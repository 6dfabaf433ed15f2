package report_test

import (
	"bytes"
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/report"
)

func TestPauseText(t *testing.T) {
	pause := policy.Pause{Reason: "year-end freeze", By: "oncall", At: now, Until: now.Add(14 * time.Hour)}
	ks := &v1.Kustomization{}
	ks.Namespace, ks.Name = "team", "shop"
	paused := ks.DeepCopy()
	paused.Annotations = map[string]string{v1.AnnotationPause: `{"reason":"year-end freeze","by":"oncall","until":"2999-01-01T00:00:00Z"}`}
	suspended := ks.DeepCopy()
	suspended.Spec.Suspend = true
	for name, answer := range map[string]text{
		"pause":           report.PauseOf(ks, pause),
		"pause_suspended": report.PauseOf(suspended, pause),
		"status_paused":   report.StatusOf([]v1.Kustomization{*paused}, nil, nil),
		"handback_paused": report.HandbackOf(report.HandbackFacts{Kustomizations: []v1.Kustomization{*paused}, Definition: report.DefinitionOwn}),
	} {
		var b bytes.Buffer
		if err := answer.WriteText(&b, report.TextOptions{Now: now}); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", b.Bytes())
	}
}
