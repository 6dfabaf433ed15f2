package expression_test

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-gitops/holdfast/internal/expression"
	"github.com/holdfast-gitops/holdfast/internal/health"
)

var widget = schema.GroupKind{Group: "example.com", Kind: "Widget"}

func check(apiVersion, kind, current string) kustomize.CustomHealthCheck {
	return kustomize.CustomHealthCheck{APIVersion: apiVersion, Kind: kind, HealthCheckExpressions: kustomize.HealthCheckExpressions{Current: current}}
}

// phase is a widget in a phase, at generation 2.
func phase(name string, status map[string]any) *unstructured.Unstructured {
	if status == nil {
		status = map[string]any{}
	}
	status["phase"] = name
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "generation": int64(2)}, "status": status}}
}

// P117: inProgress, failed and current are asked in this order; none of them means in progress. P119: what can't be evaluated
// keeps the object from being ready, with Flux's words.
func TestHealth(t *testing.T) {
	both := kustomize.CustomHealthCheck{APIVersion: "example.com/v1", Kind: "Widget", HealthCheckExpressions: kustomize.HealthCheckExpressions{
		InProgress: "status.phase == 'Busy' || status.phase == 'All'",
		Failed:     "status.phase == 'Broken' || status.phase == 'All'",
		Current:    "status.phase == 'Done' || status.phase == 'All'",
	}}
	tests := map[string]struct {
		object *unstructured.Unstructured
		want   health.Status
		error  string
	}{
		"in progress":        {object: phase("Busy", nil), want: health.InProgress},
		"failed":             {object: phase("Broken", nil), want: health.Failed},
		"current":            {object: phase("Done", nil), want: health.Current},
		"first of all":       {object: phase("All", nil), want: health.InProgress},
		"none":               {object: phase("Other", nil), want: health.InProgress},
		"an old generation":  {object: phase("Done", map[string]any{"observedGeneration": int64(1)}), want: health.InProgress},
		"generation as text": {object: phase("Done", map[string]any{"observedGeneration": "1"}), want: health.Current},
		"no field": {object: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}},
			want: health.Unknown, error: "failed to evaluate the CEL expression 'status.phase == 'Busy'"},
	}
	h, err := expression.NewHealth([]kustomize.CustomHealthCheck{both})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := health.Judge(tt.object, health.Options{Custom: h.For(widget)})
			if got.Status != tt.want || !strings.HasPrefix(got.Error, tt.error) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// P118: an entry covers its group when it names no kind, the entry of the kind wins, the version does not count, and built-in
// kinds can be covered too.
func TestHealthIsFoundByKind(t *testing.T) {
	h, err := expression.NewHealth([]kustomize.CustomHealthCheck{
		check("example.com/v1beta1", "", "false"), check("example.com/v1alpha1", "Widget", "true"), check("v1", "ConfigMap", "data.k == '1'"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for gk, want := range map[schema.GroupKind]health.Status{
		widget: health.Current, {Group: "example.com", Kind: "Gadget"}: health.InProgress,
		{Kind: "ConfigMap"}: health.Unknown, {Kind: "Secret"}: "", {Group: "other.com", Kind: "Widget"}: "",
	} {
		judge := h.For(gk)
		if (judge == nil) != (want == "") {
			t.Errorf("%s: found %t", gk, judge != nil)
			continue
		}
		if judge != nil && judge(phase("x", nil)).Status != want {
			t.Errorf("%s: %+v, want %s", gk, judge(phase("x", nil)), want)
		}
	}
	if (*expression.Health)(nil).For(widget) != nil {
		t.Error("no expressions, and yet a rule")
	}
}

// P120: what does not compile is refused, by its place in the list.
func TestInvalidHealth(t *testing.T) {
	for want, checks := range map[string][]kustomize.CustomHealthCheck{
		"failed to create custom status evaluator for healthchecks[1]: failed to parse the expression Current: ": {check("a.com/v1", "A", "true"), check("b.com/v1", "B", "status.")},
		"failed to create custom status evaluator for healthchecks[0]: expression Current not specified":         {check("a.com/v1", "A", "")},
		"duplicate custom health check for GroupKind Widget.example.com at healthchecks[1]":                      {check("example.com/v1", "Widget", "true"), check("example.com/v2", "Widget", "true")},
	} {
		if _, err := expression.NewHealth(checks); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// P121: the functions beyond the standard ones.
func TestExtensions(t *testing.T) {
	for _, text := range []string{
		"object.?status.?phase.orValue('none') == 'none'", "'a-b'.split('-').size() == 2", "sets.contains([1, 2], [2])",
		"base64.decode('YQ==') == b'a'", "timestamp('2026-01-01T00:00:00Z').getHours() == 0", "1 < 1.5",
	} {
		h, err := expression.NewHealth([]kustomize.CustomHealthCheck{check("example.com/v1", "Widget", text)})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		u := &unstructured.Unstructured{Object: map[string]any{"object": map[string]any{}}}
		if got := h.For(widget)(u); got.Status != health.Current {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// An expression that a tenant wrote can't take a worker for good.
func TestEndlessExpression(t *testing.T) {
	list := "[1,2,3,4,5,6,7,8,9,10]"
	text := "true"
	for range 12 {
		text = list + ".all(x, " + text + ")"
	}
	h, err := expression.NewHealth([]kustomize.CustomHealthCheck{check("example.com/v1", "Widget", text)})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.For(widget)(phase("x", nil)); got.Status != health.Unknown || !strings.Contains(got.Error, "cost limit") {
		t.Errorf("%+v", got)
	}
}
