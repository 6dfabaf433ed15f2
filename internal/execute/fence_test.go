package execute_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// A process that was overtaken in the middle of an apply writes nothing more.
func TestFenceEndsTheApply(t *testing.T) {
	a := newAPI()
	taken := errors.New("somebody else has taken over")
	asked := 0
	_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{
		Objects: []*unstructured.Unstructured{fenced("a"), fenced("b")},
		Fence: func(context.Context) error {
			asked++
			return taken
		},
	})
	if !errors.Is(err, taken) {
		t.Fatalf("the apply ended with: %v", err)
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once: its no is final", asked)
	}
	for _, call := range a.calls {
		if !strings.HasPrefix(call, "dry-run ") {
			t.Errorf("%s was sent in spite of the fence", call)
		}
	}
	if len(a.calls) == 0 {
		t.Error("nothing was tried")
	}
}

func fenced(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "shop", "name": name}}}
}

// The answer of the fence is good for a moment. An apply that takes longer asks again.
func TestFenceIsAskedAgain(t *testing.T) {
	for wait, want := range map[time.Duration]int{0: 1, 2 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI()
			a.before = func(obj client.Object) {
				if obj.GetName() == "a" {
					time.Sleep(wait) // the API server holds the request back
				}
			}
			asked := 0
			_, err := a.executor().Apply(t.Context(), execute.ApplyRequest{
				Objects: []*unstructured.Unstructured{fenced("a"), fenced("b")},
				Fence:   func(context.Context) error { asked++; return nil },
			})
			if err != nil || asked != want {
				t.Errorf("asked %d times in %s (%v), want %d", asked, wait, err, want)
			}
		})
	}
}
