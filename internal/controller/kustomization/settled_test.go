package kustomization

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// What is settled is dropped with all that may make a dry-run find something else without a trace on the objects.
func TestSettledIsDropped(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*pass)
		want   bool
	}{
		"not a moment later":               {func(p *pass) { p.now = p.now.Add(9 * time.Minute) }, true},
		"after ten intervals":              {func(p *pass) { p.now = p.now.Add(10 * time.Minute) }, false},
		"after an hour of a long interval": {func(p *pass) { p.ks.Spec.Interval.Duration = 24 * time.Hour; p.now = p.now.Add(time.Hour) }, false},
		"with the clock going back":        {func(p *pass) { p.now = p.now.Add(-time.Second) }, false},
		"with a change of the spec":        {func(p *pass) { p.ks.Generation++ }, false},
		"after a failure":                  {func(p *pass) { p.failed("Reason", errors.New("refused")) }, false},
		"for a stored revision":            {func(p *pass) { p.course.Back = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := passOn(newKustomization())
			p.ks.Spec.Interval = metav1.Duration{Duration: time.Minute}
			p.settled()[object.ID{Kind: "ConfigMap", Name: "x"}] = execute.Settled{}[object.ID{}]
			tt.change(p)
			if got := len(p.settled()) == 1; got != tt.want {
				t.Errorf("still settled: %v, want %v", got, tt.want)
			}
		})
	}
}
