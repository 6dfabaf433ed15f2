package kustomization

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// A controller that comes back long after a Kustomization was deleted deletes its workloads, and must not leave behind
// what the pods that are just ending still use.
func TestTheWaitOfADeletionBeginsWithItsFirstPass(t *testing.T) {
	asked := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ks := &v1.Kustomization{}
	ks.DeletionTimestamp = deletedAt(asked)
	tests := map[string]struct {
		first, now, want time.Time
	}{
		"first pass after an hour": {now: asked.Add(time.Hour), want: asked.Add(time.Hour)},
		"a later pass":             {first: asked.Add(time.Minute), now: asked.Add(time.Hour), want: asked.Add(time.Minute)},
		"a clock that is behind":   {now: asked.Add(-time.Minute), want: asked},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := &pass{ks: ks, mem: &memory{leaving: test.first}, now: test.now}
			if got := p.leavingSince(); !got.Equal(test.want) {
				t.Errorf("since %s, want %s", got, test.want)
			}
		})
	}
}

func deletedAt(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
