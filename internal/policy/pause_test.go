package policy_test

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// A pause is in force until its end. One that can't be understood is in force, and says so.
func TestPause(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	for said, want := range map[string]string{
		"": "",
		`{"reason":"freeze","by":"jane","at":"2026-01-01T00:00:00Z","until":"2026-01-02T10:00:01Z"}`: `"freeze" (jane), until 2026-01-02T10:00:01Z`,
		`{"reason":"freeze","until":"2026-01-02T11:00:01+01:00"}`:                                    `"freeze", until 2026-01-02T10:00:01Z`,
		`{"reason":"freeze","until":"2026-01-02T10:00:00Z"}`:                                         "",
		`{"reason":"freeze"}`:                    "can't be understood",
		`{"reason":"freeze","until":"tomorrow"}`: "can't be understood",
		"true":                                   "can't be understood",
		`{"reason":"` + strings.Repeat("x", 300) + `","until":"2027-01-01T00:00:00Z"}`: `xxx..."`,
	} {
		ks := &v1.Kustomization{}
		ks.Annotations = map[string]string{v1.AnnotationPause: said}
		p := policy.PauseOf(ks, now)
		got := ""
		if p != nil {
			got = p.String()
		}
		if (want == "") != (p == nil) || !strings.Contains(got, want) || policy.Stops(ks, now) != (p != nil) {
			t.Errorf("%s: %q, want %q", said, got, want)
		}
		ks.Spec.Suspend = true
		if !policy.Stops(ks, now) {
			t.Errorf("%s: a suspended one is not stopped", said)
		}
	}
}
