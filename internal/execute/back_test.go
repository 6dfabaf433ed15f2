package execute_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/execute"
)

// Going back brings back what it can. It runs no Job again, changes nothing that holds data, and leaves what the API server refuses
// to change as it is.
func TestGoingBack(t *testing.T) {
	const claim, definition = "PersistentVolumeClaim/a/p", "CustomResourceDefinition/things.example.com"
	for name, tt := range map[string]struct {
		apiVersion, name string
		live             bool
		refused          error
		wantCalls        []string
		wantLeft         string
	}{
		"config":             {apiVersion: "v1", name: "ConfigMap/a/x", live: true, wantCalls: []string{"dry-run ConfigMap/a/x", "dry-run ConfigMap/a/x", "apply ConfigMap/a/x"}},
		"Job that is there":  {apiVersion: "batch/v1", name: "Job/a/j", live: true},
		"Job that is gone":   {apiVersion: "batch/v1", name: "Job/a/j"},
		"claim":              {apiVersion: "v1", name: claim, live: true, wantCalls: []string{"dry-run " + claim}, wantLeft: "a claim is not taken back"},
		"claim that is gone": {apiVersion: "v1", name: claim, wantCalls: []string{"dry-run " + claim, "dry-run " + claim, "apply " + claim}},
		"definition": {apiVersion: "apiextensions.k8s.io/v1", name: definition, live: true, wantCalls: []string{"dry-run " + definition},
			wantLeft: "a definition is not taken back"},
		"immutable": {apiVersion: "v1", name: "ConfigMap/a/x", live: true, refused: invalid("x"), wantCalls: []string{"dry-run ConfigMap/a/x"},
			wantLeft: "the API server refuses the change"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI()
			if tt.live {
				a = newAPI(obj(tt.apiVersion, tt.name, of("2")))
			}
			if tt.refused != nil {
				a.faults["dry-run "+tt.name] = tt.refused
			}
			got, err := a.executor().Apply(t.Context(), execute.ApplyRequest{Back: true,
				Objects: []*unstructured.Unstructured{obj(tt.apiVersion, tt.name, of("1"))}})
			if err != nil || !slices.Equal(a.calls, tt.wantCalls) {
				t.Errorf("calls %q, want %q (%v)", a.calls, tt.wantCalls, err)
			}
			var left []string
			for _, l := range got.LeftAsIs {
				left = append(left, l.String())
			}
			if text := strings.Join(left, "\n"); (len(left) > 0) != (tt.wantLeft != "") || !strings.Contains(text, tt.wantLeft) {
				t.Errorf("left as it is: %q, want %q", text, tt.wantLeft)
			}
		})
	}
}
