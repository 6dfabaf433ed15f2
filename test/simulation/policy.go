package simulation

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// policy is what a Kustomization asks for, read here once more, from docs/guide/policy.md and not by package policy.
type policy struct {
	afterApply       bool
	retain, maxPrune string
	soak             time.Duration
	rules            []v1.PruneRule
	// rollback and any are onFailure: Rollback and rollbackOn: Any; keep is how many healthy revisions are stored.
	rollback, any bool
	keep          int
	// invalid is true when some value means nothing, so that nothing is to be pruned.
	invalid bool
}

func policyOf(ks *v1.Kustomization) policy {
	spec := ks.Spec.Rollout
	if spec == nil {
		spec = &v1.RolloutPolicy{}
	}
	first := func(value, annotation, otherwise string) string {
		for _, v := range []string{value, ks.Annotations[annotation]} {
			if v != "" {
				return v
			}
		}
		return otherwise
	}
	p := policy{retain: first(string(spec.Retain), v1.AnnotationRetain, "InUse"), rules: spec.Prune}
	order := first(string(spec.PruneOrder), v1.AnnotationPruneOrder, "AfterHealthy")
	p.afterApply = order == "AfterApply"
	p.invalid = !p.afterApply && order != "AfterHealthy" || !strings.Contains(" InUse History None ", " "+p.retain+" ")
	p.rollback = first(string(spec.OnFailure), v1.AnnotationOnFailure, "Hold") == "Rollback"
	p.any = first(string(spec.RollbackOn), v1.AnnotationRollbackOn, "BadRelease") == "Any"
	if p.rollback {
		p.keep = 3
	}
	if spec.KeepRevisions != nil {
		p.keep = int(*spec.KeepRevisions)
	} else if n, err := strconv.Atoi(ks.Annotations[v1.AnnotationKeepRevisions]); err == nil {
		p.keep = n
	}
	limit := ""
	if spec.MaxPrune != nil {
		limit = spec.MaxPrune.String()
	}
	if spec.Soak != nil {
		p.soak = spec.Soak.Duration
	} else if d, err := time.ParseDuration(ks.Annotations[v1.AnnotationSoak]); err == nil {
		p.soak = d
	}
	p.maxPrune = first(limit, v1.AnnotationMaxPrune, "")
	if len(p.rules) == 0 && ks.Annotations[v1.AnnotationPrune] != "" {
		for rule := range strings.SplitSeq(ks.Annotations[v1.AnnotationPrune], ",") {
			what, when, _ := strings.Cut(rule, "=")
			kind, name, _ := strings.Cut(what, "/")
			p.rules = append(p.rules, v1.PruneRule{Kind: kind, Name: name, When: v1.PruneWhen(when)})
		}
	}
	return p
}

var hashed = regexp.MustCompile("-[" + hashAlphabet + "]{10}$")

// isGenerated tells whether an object is config whose name changes with its content.
func isGenerated(id object.ID) bool {
	return (id.Kind == "ConfigMap" || id.Kind == "Secret") && hashed.MatchString(id.Name)
}

// when is the time of pruning that is set for an object: by itself, by a rule with its name, by a rule for its kind.
func (p policy) when(obj *unstructured.Unstructured) string {
	if own := obj.GetAnnotations()[v1.AnnotationPrune]; own != "" {
		return own
	}
	id := object.IDOf(obj)
	for _, named := range []bool{true, false} {
		for _, r := range p.rules {
			if r.Kind == id.Kind && (r.Name != "") == named && (!named || r.Name == id.Name || r.Name == hashed.ReplaceAllString(id.Name, "")) {
				return string(r.When)
			}
		}
	}
	return ""
}

// conditions are what has to be so before an object may go.
type conditions struct{ healthy, siblings, unused, forgotten, word bool }

func (p policy) conditions(obj *unstructured.Unstructured) conditions {
	c := conditions{healthy: !p.afterApply, siblings: !p.afterApply, unused: !p.afterApply && p.retain != "None"}
	switch p.when(obj) {
	case "":
	case "Immediate":
		return conditions{}
	case "WhenHealthy":
		c = conditions{healthy: true, siblings: true}
	case "WhenUnused":
		c = conditions{healthy: true, siblings: true, unused: true}
	default: // Confirm, and what nobody understands
		c.word = true
	}
	c.forgotten = c.unused && p.retain == "History"
	return c
}

// most is how many objects of an inventory go without a word; false for any number.
func (p policy) most(inventory int) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(p.maxPrune, "%"))
	switch {
	case err != nil:
		return 0, false
	case strings.HasSuffix(p.maxPrune, "%"):
		return max(1, (inventory*n+99)/100), true
	}
	return n, true
}

// hasWord tells whether a person allowed the deletion of this very object, as far as some state of the Kustomization shows: it
// was shown as waiting and its digest repeated, or it is remembered as confirmed. That it is remembered by right is checked when
// status is written.
func hasWord(ks *v1.Kustomization, obj *unstructured.Unstructured) bool {
	if ks == nil || ks.Status.Rollout == nil {
		return false
	}
	for _, kept := range ks.Status.Rollout.Retained {
		if kept.ID == object.IDOf(obj).Inventory() && kept.UID == string(obj.GetUID()) {
			return kept.Confirmed || isConfirmed(ks, kept)
		}
	}
	return false
}

// isConfirmed tells whether the annotation repeats the digest under which an object is shown.
func isConfirmed(ks *v1.Kustomization, kept v1.RetainedObject) bool {
	pending := ks.Status.Rollout.PendingPrune
	return pending != nil && pending.Digest != "" && ks.Annotations[v1.AnnotationConfirmPrune] == pending.Digest &&
		kept.Reason == v1.RetainedAwaitingConfirmation && kept.UID != ""
}
