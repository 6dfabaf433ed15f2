package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

func limit(t *testing.T, s string) policy.Limit {
	t.Helper()
	l, err := policy.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Each field comes from the first place that sets it, whatever the others say about another field.
func TestPrecedence(t *testing.T) {
	defaults := policy.Defaults{Order: v1.PruneAfterApply, Retain: v1.RetainNone, Max: limit(t, "30"), Soak: 3 * time.Minute}
	annotations := map[string]string{v1.AnnotationPruneOrder: "AfterHealthy", v1.AnnotationRetain: "History",
		v1.AnnotationMaxPrune: "20%", v1.AnnotationPrune: "Secret=Confirm", v1.AnnotationSoak: "2m",
		v1.AnnotationReferences: "Widget.example.com:spec.a=Secret, Gadget.example.com:spec.names[*]=ConfigMap"}
	most := intstr.FromInt32(10)
	spec := &v1.RolloutPolicy{PruneOrder: v1.PruneAfterApply, Retain: v1.RetainInUse, MaxPrune: &most,
		Prune: []v1.PruneRule{{Kind: "Job", When: v1.PruneImmediate}}, Soak: &metav1.Duration{},
		References: []v1.ReferenceRule{{Group: "example.com", Kind: "Thing", Path: "{.spec.x}", TargetKind: "Secret"}}}
	tests := map[string]struct {
		spec        *v1.RolloutPolicy
		annotations map[string]string
		defaults    policy.Defaults
		order       v1.PruneOrder
		retain      v1.RetainPolicy
		max, rules  string
		soak        time.Duration
		references  string
	}{
		"built in":      {order: v1.PruneAfterHealthy, retain: v1.RetainInUse},
		"flags":         {defaults: defaults, order: v1.PruneAfterApply, retain: v1.RetainNone, max: "30", soak: 3 * time.Minute},
		"annotations":   {annotations: annotations, defaults: defaults, order: v1.PruneAfterHealthy, retain: v1.RetainHistory, max: "20%", rules: "Secret=Confirm", soak: 2 * time.Minute, references: "Widget.example.com=Secret,Gadget.example.com=ConfigMap"},
		"spec":          {spec: spec, annotations: annotations, defaults: defaults, order: v1.PruneAfterApply, retain: v1.RetainInUse, max: "10", rules: "Job=Immediate", references: "Thing.example.com=Secret"},
		"an empty spec": {spec: &v1.RolloutPolicy{}, annotations: annotations, order: v1.PruneAfterHealthy, retain: v1.RetainHistory, max: "20%", rules: "Secret=Confirm", soak: 2 * time.Minute, references: "Widget.example.com=Secret,Gadget.example.com=ConfigMap"},
		"a mixture": {spec: &v1.RolloutPolicy{Retain: v1.RetainHistory}, annotations: map[string]string{v1.AnnotationMaxPrune: "5"}, defaults: defaults,
			order: v1.PruneAfterApply, retain: v1.RetainHistory, max: "5", soak: 3 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ks := &v1.Kustomization{}
			ks.Spec.Rollout, ks.Annotations = tt.spec, tt.annotations
			p, problems := policy.Resolve(ks, tt.defaults)
			if len(problems) > 0 || p.Order != tt.order || p.Retain != tt.retain || p.Max.String() != tt.max || spell(p.Rules) != tt.rules ||
				p.Soak != tt.soak || spellReferences(p.References) != tt.references {
				t.Errorf("%+v %v", p, problems)
			}
		})
	}
}

func spellReferences(rules []usage.Rule) string {
	words := make([]string, 0, len(rules))
	for _, r := range rules {
		words = append(words, r.From.String()+"="+r.To)
	}
	return strings.Join(words, ",")
}

func spell(rules []v1.PruneRule) string {
	words := make([]string, 0, len(rules))
	for _, r := range rules {
		words = append(words, policy.Rule(r))
	}
	return strings.Join(words, ",")
}

// A value that can't be understood names its place and what may stand there; what keeps more takes its place.
func TestInvalidValues(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		spec        v1.RolloutPolicy
		want        string
	}{
		"order":       {annotations: map[string]string{v1.AnnotationPruneOrder: "afterapply"}, want: `holdfast.dev/prune-order is "afterapply": want AfterHealthy or AfterApply`},
		"retain":      {annotations: map[string]string{v1.AnnotationRetain: "all"}, want: `holdfast.dev/retain is "all": want InUse, History or None`},
		"retain spec": {spec: v1.RolloutPolicy{Retain: "all"}, want: `spec.rollout.retain is "all": want InUse, History or None`},
		"limit":       {annotations: map[string]string{v1.AnnotationMaxPrune: "120%"}, want: `holdfast.dev/max-prune is "120%": want a count such as 10, or a percentage from 0% to 100%`},
		"limit spec":  {spec: v1.RolloutPolicy{MaxPrune: &intstr.IntOrString{Type: intstr.String, StrVal: "many"}}, want: `spec.rollout.maxPrune is "many": want a count such as 10, or a percentage from 0% to 100%`},
		"soak":        {annotations: map[string]string{v1.AnnotationSoak: "soon"}, want: `holdfast.dev/soak is "soon": want a duration such as 10m, not below 0`},
		"soak spec":   {spec: v1.RolloutPolicy{Soak: &metav1.Duration{Duration: -time.Second}}, want: `spec.rollout.soak is "-1s": want a duration such as 10m, not below 0`},
		"references": {annotations: map[string]string{v1.AnnotationReferences: "Widget.example.com:spec.a=Secret, Widget.example.com:spec.b"},
			want: `holdfast.dev/references has "Widget.example.com:spec.b": want rules KIND.GROUP:PATH=TARGETKIND separated by commas: want the kind that names and the kind that is named`},
		"references spec": {spec: v1.RolloutPolicy{References: []v1.ReferenceRule{{Group: "example.com", Kind: "Widget", Path: "spec.a[0]", TargetKind: "Secret"}}},
			want: `spec.rollout.references[0] is "Widget.example.com:spec.a[0]=Secret": want fields separated by dots, such as spec.tls[*].secretName, with [*] after a list and ['a.b'] for a field with dots`},
		"rules": {annotations: map[string]string{v1.AnnotationPrune: "Secret=Soon"},
			want: `holdfast.dev/prune is "Secret=Soon": want rules KIND[/NAME]=WHEN separated by commas, where WHEN is Immediate, WhenHealthy, WhenUnused or Confirm`},
		"rules spec": {spec: v1.RolloutPolicy{Prune: []v1.PruneRule{{Kind: "Secret", When: "Soon"}}},
			want: `spec.rollout.prune[] is "Secret=Soon": want a kind, and when Immediate, WhenHealthy, WhenUnused or Confirm`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ks := &v1.Kustomization{}
			ks.Annotations, ks.Spec.Rollout = tt.annotations, &tt.spec
			p, problems := policy.Resolve(ks, policy.Defaults{Order: v1.PruneAfterApply, Retain: v1.RetainNone})
			if len(problems) != 1 || problems[0].Error() != tt.want {
				t.Errorf("%v, want %s", problems, tt.want)
			}
			if strings.HasPrefix(name, "soak") && p.Soak < 1000*time.Hour {
				t.Errorf("an unreadable time is %s", p.Soak)
			}
			most, limited := p.Max.Of(100)
			if strings.HasPrefix(name, "limit") && (!limited || most != 0) {
				t.Errorf("an unreadable limit lets go of %d objects, limited %t", most, limited)
			}
			if name == "order" && p.Order != v1.PruneAfterHealthy || strings.HasPrefix(name, "retain") && p.Retain != v1.RetainInUse {
				t.Errorf("an unreadable value gives %+v", p)
			}
		})
	}
}

// A Kustomization is itself an object that another one may manage: a bare time speaks of it, rules are its own policy.
func TestPruneAnnotationHasTwoPlaces(t *testing.T) {
	ks := &v1.Kustomization{}
	ks.Annotations = map[string]string{v1.AnnotationPrune: "Confirm"}
	if p, problems := policy.Resolve(ks, policy.Defaults{}); len(problems) > 0 || len(p.Rules) > 0 {
		t.Errorf("%+v %v", p, problems)
	}
	for _, tt := range []struct {
		kind, value string
		want        v1.PruneWhen
	}{
		{"Kustomization", "Confirm", "Confirm"}, {"Kustomization", "Job=Immediate", ""}, {"Job", "Immediate", "Immediate"},
		{"Job", "Job=Immediate", "Job=Immediate"}, {"Job", "", ""},
	} {
		if got := policy.OnObject(tt.kind, tt.value); got != tt.want {
			t.Errorf("%s %q: %q, want %q", tt.kind, tt.value, got, tt.want)
		}
	}
}

func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		limit     string
		inventory int
		most      int
		limited   bool
	}{
		{"", 10, 0, false}, {"0", 10, 0, true}, {"3", 10, 3, true}, {"20%", 10, 2, true}, {"20%", 11, 3, true}, {"1%", 10, 1, true},
		{"0%", 10, 1, true}, {"100%", 7, 7, true}, {"20%", 0, 1, true},
	} {
		if most, limited := limit(t, tt.limit).Of(tt.inventory); most != tt.most || limited != tt.limited {
			t.Errorf("%q of %d: %d %t, want %d %t", tt.limit, tt.inventory, most, limited, tt.most, tt.limited)
		}
		if got := limit(t, tt.limit).String(); got != tt.limit {
			t.Errorf("%q is written as %q", tt.limit, got)
		}
	}
	for _, s := range []string{"-1", "x", "%", "101%", "1.5", "10 %"} {
		if _, err := policy.ParseLimit(s); err == nil {
			t.Errorf("%q is a limit", s)
		}
	}
}

func TestWhen(t *testing.T) {
	rules := []v1.PruneRule{{Kind: "Secret", When: "WhenHealthy"}, {Kind: "Secret", When: "Confirm"}, {Kind: "Secret", Name: "db", When: "Confirm"},
		{Kind: "Secret", Name: "db", When: "Immediate"}}
	for name, want := range map[string]v1.PruneWhen{
		"other": "WhenHealthy", "db": "Confirm", "db-g5b2m5gtd8": "Confirm", "db-aaaaaaaaaa": "WhenHealthy", "a-db": "WhenHealthy",
	} {
		if got := policy.When(rules, object.ID{Kind: "Secret", Namespace: "shop", Name: name}); got != want {
			t.Errorf("Secret %s: %q, want %q", name, got, want)
		}
	}
	if got := policy.When(rules, object.ID{Kind: "ConfigMap", Name: "db"}); got != "" {
		t.Errorf("ConfigMap db: %q", got)
	}
}

func TestAnnotationsOfAKustomization(t *testing.T) {
	ks := &v1.Kustomization{}
	ks.Annotations = map[string]string{"holdfast.dev/retian": "None", "holdfast.dev/a": "", v1.AnnotationRetain: "None", "example.com/x": "y"}
	if got := policy.UnknownAnnotations(ks); !slices.Equal(got, []string{"holdfast.dev/a", "holdfast.dev/retian"}) {
		t.Errorf("unknown: %q", got)
	}
}
