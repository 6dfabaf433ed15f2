// Package policy finds out what a Kustomization asks for: when to prune, what to keep, how much at a time.
//
// Each field is taken from the first place that sets it: spec.rollout, the annotations of the Kustomization, the defaults
// of the controller, and what is built in. The annotations are there for clusters that keep Flux's own CRD, whose API
// server refuses spec.rollout. A value that can't be understood is an error that names its place and what may stand there;
// the built-in default, which keeps most, takes its place.
//
// It is pure: no client, clock or context. What follows from a policy is decided in package plan.
package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// Policy is what holds for one Kustomization.
type Policy struct {
	Order  v1.PruneOrder
	Retain v1.RetainPolicy
	// Max bounds a prune that needs no confirmation.
	Max Limit
	// Rules set the time of pruning for kinds and names.
	Rules []v1.PruneRule
	// Soak is how long a build has to stay healthy before it counts as healthy.
	Soak time.Duration
	// References are rules for how custom resources name others.
	References []usage.Rule
	// Recovery is what follows a failed revision.
	Recovery Recovery
}

// Defaults are what holds where neither spec nor annotations say something. The zero value leaves everything to what is
// built in.
type Defaults struct {
	Order  v1.PruneOrder
	Retain v1.RetainPolicy
	Max    Limit
	Soak   time.Duration
	// OnFailure is Hold or Rollback.
	OnFailure v1.OnFailure
}

// The values of the fields that have a fixed list of them.
var (
	orders  = []v1.PruneOrder{v1.PruneAfterHealthy, v1.PruneAfterApply}
	retains = []v1.RetainPolicy{v1.RetainInUse, v1.RetainHistory, v1.RetainNone}
	whens   = []v1.PruneWhen{v1.PruneImmediate, v1.PruneWhenHealthy, v1.PruneWhenUnused, v1.PruneConfirm}
)

// Resolve returns the policy of a Kustomization and everything that is wrong with it.
func Resolve(ks *v1.Kustomization, defaults Defaults) (Policy, []error) {
	spec := v1.RolloutPolicy{}
	if ks.Spec.Rollout != nil {
		spec = *ks.Spec.Rollout
	}
	r := resolver{annotations: ks.Annotations}
	p := Policy{
		Order:  pick(&r, string(spec.PruneOrder), v1.AnnotationPruneOrder, defaults.Order, orders),
		Retain: pick(&r, string(spec.Retain), v1.AnnotationRetain, defaults.Retain, retains),
		Max:    r.limit(spec.MaxPrune, defaults.Max),
		Rules:  r.rules(spec.Prune),
		Soak:   r.soak(spec.Soak, defaults.Soak),

		References: r.references(spec.References),

		Recovery: r.recovery(spec, defaults),
	}
	return p, r.problems
}

// Check refuses defaults that there are not. The error begins with the name of the field.
func (d Defaults) Check() error {
	switch {
	case !slices.Contains(orders, d.Order):
		return fmt.Errorf("prune-order is %q: want %s", d.Order, list(orders))
	case !slices.Contains(retains, d.Retain):
		return fmt.Errorf("retain is %q: want %s", d.Retain, list(retains))
	case d.Soak < 0:
		return fmt.Errorf("soak is %s: want %s", d.Soak, wantSoak)
	case !slices.Contains(onFailures, d.OnFailure):
		return fmt.Errorf("on-failure is %q: want %s", d.OnFailure, list(onFailures))
	}
	return nil
}

// resolver collects what is wrong while the fields are read.
type resolver struct {
	annotations map[string]string
	problems    []error
}

func (r *resolver) complain(place, value, want string) {
	r.problems = append(r.problems, fmt.Errorf("%s is %q: want %s", place, value, want))
}

// pick takes a field with a fixed list of values from the first place that sets it. The first of the list is built in.
func pick[T ~string](r *resolver, spec, key string, otherwise T, values []T) T {
	place, value := "spec.rollout."+fieldOf(key), spec
	if value == "" {
		place, value = key, r.annotations[key]
	}
	if value == "" {
		value = string(otherwise)
	}
	switch {
	case value == "":
		return values[0]
	case !slices.Contains(values, T(value)):
		r.complain(place, value, list(values))
		return values[0]
	}
	return T(value)
}

func (r *resolver) limit(spec *intstr.IntOrString, otherwise Limit) Limit {
	place, value := "spec.rollout.maxPrune", ""
	if spec != nil {
		value = spec.String()
	} else if value = r.annotations[v1.AnnotationMaxPrune]; value != "" {
		place = v1.AnnotationMaxPrune
	} else {
		return otherwise
	}
	limit, err := ParseLimit(value)
	if err != nil {
		r.complain(place, value, wantLimit)
		// Nothing goes without a word from a person while the limit is not understood.
		return Limit{set: true}
	}
	return limit
}

const wantSoak = "a duration such as 10m, not below 0"

func (r *resolver) soak(spec *metav1.Duration, otherwise time.Duration) time.Duration {
	place, value := "spec.rollout.soak", ""
	if spec != nil {
		value = spec.Duration.String()
	} else if value = r.annotations[v1.AnnotationSoak]; value != "" {
		place = v1.AnnotationSoak
	} else {
		return otherwise
	}
	soak, err := time.ParseDuration(value)
	if err != nil || soak < 0 {
		r.complain(place, value, wantSoak)
		// Nothing counts as healthy while the time is not understood.
		return math.MaxInt64
	}
	return soak
}

// rules reads the rules of the spec, or else those of the annotation.
func (r *resolver) rules(spec []v1.PruneRule) []v1.PruneRule {
	if len(spec) == 0 {
		return r.annotatedRules()
	}
	for _, rule := range spec {
		if rule.Kind == "" || !IsWhen(rule.When) {
			r.complain("spec.rollout.prune[]", Rule(rule), "a kind, and when "+list(whens))
		}
	}
	return spec
}

// annotatedRules reads KIND[/NAME]=WHEN, separated by commas. A bare time is no rule: it speaks of the Kustomization as an
// object that a parent manages.
func (r *resolver) annotatedRules() []v1.PruneRule {
	value := r.annotations[v1.AnnotationPrune]
	if value == "" || IsWhen(v1.PruneWhen(value)) {
		return nil
	}
	var rules []v1.PruneRule
	for part := range strings.SplitSeq(value, ",") {
		what, when, _ := strings.Cut(strings.TrimSpace(part), "=")
		kind, name, _ := strings.Cut(what, "/")
		rule := v1.PruneRule{Kind: kind, Name: name, When: v1.PruneWhen(when)}
		if kind == "" || !IsWhen(rule.When) {
			r.complain(v1.AnnotationPrune, value, "rules KIND[/NAME]=WHEN separated by commas, where WHEN is "+list(whens))
			return nil
		}
		rules = append(rules, rule)
	}
	return rules
}

// Rule writes a rule in the form of the annotation.
func Rule(rule v1.PruneRule) string {
	name := ""
	if rule.Name != "" {
		name = "/" + rule.Name
	}
	return rule.Kind + name + "=" + string(rule.When)
}

// IsWhen tells whether a time of pruning is one of those that there are.
func IsWhen(when v1.PruneWhen) bool { return slices.Contains(whens, when) }

// Whens lists the times of pruning for a message.
func Whens() string { return list(whens) }

// fieldOf is the field of spec.rollout that an annotation stands for.
func fieldOf(key string) string {
	for _, a := range v1.Annotations {
		if a.Key == key && a.Field != "" {
			return a.Field
		}
	}
	return key
}

// list writes values as "A, B or C".
func list[T ~string](values []T) string {
	words := make([]string, 0, len(values))
	for _, v := range values {
		words = append(words, string(v))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
