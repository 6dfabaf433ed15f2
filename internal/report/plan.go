package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/execute"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/plan"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// PlanFacts are what a preview of the controller found.
type PlanFacts struct {
	Kustomization *v1.Kustomization
	// Revision is what was looked at.
	Revision string
	// Refused is why nothing of it would be applied: all that is wrong with the spec or the build.
	Refused string
	// Effects are what an apply would do.
	Effects []execute.Effect
	// Before, Applied and Healthy are the planner's decisions before the build is applied, after that, and once it is healthy.
	Before, Applied, Healthy plan.Plan
	// Stale are the objects that the decisions are about, as they were seen.
	Stale []plan.Stale
	// Old are the generated ConfigMaps and Secrets among them.
	Old map[object.ID]*unstructured.Unstructured
	// Hidden are the objects whose values are not shown, since they were encrypted; with AllHidden those of all objects.
	Hidden    object.Set
	AllHidden bool
	// Claims are the objects that another Kustomization wants, too.
	Claims []plan.Claim
	// Withheld are objects of Flux itself that are not applied.
	Withheld object.Set
	// InPlace are generated objects whose variables change under the same name.
	InPlace []object.ID
	// Course is what would be brought to the cluster, which may be a stored revision.
	Course plan.Course
	// Neighbours counts the other Kustomizations of the source.
	Neighbours int
	// Unseen says what could not be seen.
	Unseen []string
}

// Planned is what happens to an object.
type Planned string

// What happens.
const (
	PlanCreate  Planned = "create"
	PlanChange  Planned = "change"
	PlanRename  Planned = "rename"
	PlanReplace Planned = "replace"
	PlanRefuse  Planned = "refuse"
	PlanUnclear Planned = "unclear"
	PlanSkip    Planned = "skip"
	PlanPrune   Planned = "prune"
	PlanKeep    Planned = "keep"
	PlanConfirm Planned = "confirm"
	PlanMove    Planned = "move"
	// PlanForget takes an object off the inventory that another one owns by now.
	PlanForget Planned = "forget"
)

// PlannedObject is an object to which something happens.
type PlannedObject struct {
	// ID of the object as Kind/namespace/name.
	ID string `json:"id"`
	// Action is create, change, rename, replace, refuse, unclear, skip, prune, keep, confirm, move or forget.
	Action Planned `json:"action"`
	// Before is the name of the generated config whose place it takes.
	Before string `json:"before,omitempty"`
	// Fields that differ. Values of Secrets are not in it.
	Fields []FieldDiff `json:"fields,omitempty"`
	// When it is pruned.
	When string `json:"when,omitempty"`
	// Reason, Users and Until are why it is kept, as in status.rollout.retained.
	Reason v1.RetentionReason `json:"reason,omitempty"`
	Users  []string           `json:"users,omitempty"`
	Until  string             `json:"until,omitempty"`
	// Why says more.
	Why string `json:"why,omitempty"`
	// Pods is how many pods of a workload are replaced.
	Pods int64 `json:"pods,omitempty"`
	// Already is true for one that is kept by now.
	Already bool `json:"already,omitempty"`
	// Compared says why no dry-run was made, so that defaults and webhooks are not taken into account.
	Compared string `json:"compared,omitempty"`
}

// Plan is the answer of `holdfast plan`.
type Plan struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Runs is the revision that was applied last, and State the state; empty for a Kustomization that does not exist yet.
	Runs  string `json:"runs,omitempty"`
	State State  `json:"state,omitempty"`
	// To is what was looked at.
	To string `json:"to"`
	// Refused is all that is wrong with the spec or the build, of which nothing would be applied.
	Refused string `json:"refused,omitempty"`
	// Objects to which something happens.
	Objects []PlannedObject `json:"objects"`
	// Unchanged counts the others of the build.
	Unchanged int `json:"unchanged"`
	// Notes say what else has to be known.
	Notes []string `json:"notes,omitempty"`
	// Unseen says what could not be seen.
	Unseen []string `json:"unseen,omitempty"`
	// Diff shows the fields in the text.
	Diff bool `json:"-"`
}

// PlanOf makes the answer.
func PlanOf(f PlanFacts) Plan {
	ks := f.Kustomization
	p := Plan{Namespace: ks.Namespace, Name: ks.Name, Runs: ks.Status.LastAppliedRevision, To: f.Revision, Refused: f.Refused,
		Objects: []PlannedObject{}, Unseen: f.Unseen}
	if ks.UID != "" {
		p.State = StateOf(ks)
	}
	p.Notes = notesOf(f)
	if f.Refused != "" {
		return p
	}
	renamed := renamesOf(f)
	for _, e := range f.Effects {
		if e.Act == execute.Unchanged {
			p.Unchanged++
			continue
		}
		o := plannedEffect(e, f.Old[renamed[e.ID]])
		if f.AllHidden || f.Hidden.Has(e.ID) {
			hide(o.Fields)
		}
		p.Objects = append(p.Objects, o)
	}
	p.Objects = append(p.Objects, plannedStale(f)...)
	slices.SortStableFunc(p.Objects, func(a, b PlannedObject) int { return strings.Compare(a.ID, b.ID) })
	return p
}

// hide takes the values out of fields.
func hide(fields []FieldDiff) {
	for i, f := range fields {
		fields[i].From, fields[i].To = masked(f.From != ""), masked(f.To != "")
	}
}

// renamesOf finds for new generated config the old one whose place it takes.
func renamesOf(f PlanFacts) map[object.ID]object.ID {
	created := map[object.ID]*unstructured.Unstructured{}
	for _, e := range f.Effects {
		if e.Act == execute.Create {
			created[e.ID] = e.Applied
		}
	}
	out := map[object.ID]object.ID{}
	for id := range f.Old {
		if twin, ok := renamedTo(id, f.Old, created); ok {
			out[twin] = id
		}
	}
	return out
}

var actions = map[execute.Act]Planned{execute.Create: PlanCreate, execute.Configure: PlanChange, execute.Skip: PlanSkip,
	execute.Replace: PlanReplace, execute.Refuse: PlanRefuse, execute.Unclear: PlanUnclear}

// plannedEffect is what an apply does to an object; old is the generated config whose place it takes.
func plannedEffect(e execute.Effect, old *unstructured.Unstructured) PlannedObject {
	out := PlannedObject{ID: e.ID.String(), Action: actions[e.Act], Why: e.Why, Compared: e.Compared}
	switch {
	case old != nil && e.Applied != nil:
		out.Action, out.Before = PlanRename, old.GetName()
		out.Fields = fieldDiffs(essence(old), essence(e.Applied))
	case e.Act == execute.Configure && e.Applied != nil:
		out.Fields = fieldDiffs(essence(e.Live), essence(e.Applied))
		out.Pods = rolled(e.Live, out.Fields)
		if len(out.Fields) == 0 {
			out.Why = "only who manages its fields changes"
		}
	case e.Act == execute.Replace && e.Live != nil && e.Applied != nil && e.Live.GetDeletionTimestamp() == nil:
		merged := essence(e.Live)
		out.Fields = wantedDiffs(merged, essence(e.Applied))
	}
	return out
}

// essence is an object without what the API server keeps for itself.
func essence(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	delete(out.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	return out
}

// wantedDiffs are the fields of a manifest that differ from an object, without those that the manifest does not name.
func wantedDiffs(live, manifest *unstructured.Unstructured) []FieldDiff {
	return slices.DeleteFunc(fieldDiffs(live, manifest), func(d FieldDiff) bool { return d.To == "" })
}

// rolled is how many pods a change of a workload replaces.
func rolled(live *unstructured.Unstructured, fields []FieldDiff) int64 {
	if live.GroupVersionKind().Group != "apps" ||
		!slices.ContainsFunc(fields, func(d FieldDiff) bool { return strings.HasPrefix(d.Path, "spec.template.") }) {
		return 0
	}
	if n, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas"); found && err == nil {
		return n
	}
	n, _, _ := unstructured.NestedInt64(live.Object, "status", "desiredNumberScheduled")
	return n
}

// beforeApply is when objects go that say so themselves.
const beforeApply = "before this revision is applied"

// plannedStale is what becomes of what the build lacks.
func plannedStale(f PlanFacts) []PlannedObject {
	when := prunedWhen(f)
	already := map[string]bool{}
	if r := f.Kustomization.Status.Rollout; r != nil {
		for _, kept := range r.Retained {
			already[nameOf(kept.ID)] = true
		}
	}
	leaving := map[object.ID]bool{}
	for _, s := range f.Stale {
		leaving[s.ID] = !s.Seen.DeletedAt.IsZero()
	}
	var out []PlannedObject
	for _, d := range f.Healthy.Delete {
		out = append(out, PlannedObject{ID: d.ID.String(), Action: PlanPrune, When: when[d.ID]})
	}
	for _, d := range f.Healthy.Drop {
		if d.Reason == plan.Foreign {
			out = append(out, PlannedObject{ID: d.ID.String(), Action: PlanForget, Why: "it is managed by " + d.Message})
		}
	}
	for _, r := range f.Healthy.Retain {
		o := plannedRetention(r, leaving[r.ID])
		o.Already = already[spaced(r.ID.String())]
		out = append(out, o)
	}
	return out
}

// plannedRetention is what becomes of an object that the planner keeps for now.
func plannedRetention(r plan.Retention, leaving bool) PlannedObject {
	o := PlannedObject{ID: r.ID.String(), Action: PlanKeep, Reason: r.Reason, Users: r.Users, Until: r.Until, Why: r.Message}
	switch {
	case r.Reason == v1.RetainedAwaitingConfirmation:
		o.Action = PlanConfirm
	case r.Reason == v1.RetainedMovedElsewhere:
		o.Action = PlanMove
	case r.Reason == v1.RetainedTerminating && !leaving: // an earlier wave goes first
		return PlannedObject{ID: o.ID, Action: PlanPrune, When: "once this revision is healthy, after others: " + r.Message}
	}
	return o
}

// prunedWhen says of each object that goes when that is.
func prunedWhen(f PlanFacts) map[object.ID]string {
	when := map[object.ID]string{}
	for _, stage := range []struct {
		deletions []plan.Deletion
		text      string
	}{
		{f.Healthy.Delete, "once this revision is healthy"}, {f.Applied.Delete, "once this revision is applied"}, {f.Before.Delete, beforeApply},
	} {
		for _, d := range stage.deletions {
			when[d.ID] = stage.text
		}
	}
	return when
}

// notesOf is what else has to be known.
func notesOf(f PlanFacts) []string {
	var notes []string
	ks := f.Kustomization
	if pause := policy.PauseOf(ks, time.Now()); pause != nil {
		notes = append(notes, "it is paused: "+pause.String()+"; nothing of this happens before that, or `holdfast release "+ks.Name+" -n "+ks.Namespace+"`")
	}
	if ks.Spec.Suspend {
		notes = append(notes, "it is suspended: nothing of this happens before `holdfast resume "+ks.Name+" -n "+ks.Namespace+"`")
	}
	return append(append(notes, notesOfCourse(f)...), notesOfObjects(f)...)
}

// notesOfCourse says that another revision goes on running.
func notesOfCourse(f PlanFacts) []string {
	ks := f.Kustomization
	if !f.Course.Back {
		return nil
	}
	what := "it was rolled back, and the source still renders what failed"
	if r := ks.Status.Rollout; r != nil && r.Pin != nil {
		what = "it is pinned"
	}
	return []string{fmt.Sprintf("%s: %s goes on running, and nothing of this happens before `holdfast release %s -n %s`",
		what, f.Course.To.Revision, ks.Name, ks.Namespace)}
}

// notesOfObjects says what the lists of objects do not.
func notesOfObjects(f PlanFacts) []string {
	var notes []string
	for _, id := range slices.SortedFunc(maps.Keys(f.Withheld), object.Compare) {
		notes = append(notes, spaced(id.String())+" is not applied: it would start a controller of Flux that does the same work")
	}
	for _, c := range f.Claims {
		notes = append(notes, fmt.Sprintf("%s is wanted by %s, too: each would undo what the other writes", spaced(c.ID.String()), c.By))
	}
	for _, id := range f.InPlace {
		if slices.ContainsFunc(f.Effects, func(e execute.Effect) bool { return e.ID == id && e.Act == execute.Configure }) {
			notes = append(notes, spaced(id.String())+" changes under the same name: what reads it at its start keeps the old values until it is restarted")
		}
	}
	if f.AllHidden {
		notes = append(notes, "no values are shown: some come from an encrypted file, or from a Secret by spec.postBuild, and may be anywhere")
	}
	if f.Neighbours > 0 && len(f.Healthy.Delete) > 0 {
		notes = append(notes, fmt.Sprintf("%s this source: what one of them has in this revision is not pruned here", follow(f.Neighbours)))
	}
	return notes
}

func follow(n int) string {
	if n == 1 {
		return "1 other Kustomization follows"
	}
	return fmt.Sprintf("%d other Kustomizations follow", n)
}

// count is how many objects have one of the actions.
func (p Plan) count(actions ...Planned) int {
	n := 0
	for _, o := range p.Objects {
		if slices.Contains(actions, o.Action) {
			n++
		}
	}
	return n
}

// Changes tells whether anything would happen.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Objects, func(o PlannedObject) bool { return o.Action != PlanSkip && !o.Already })
}

// Fails tells whether the revision would be refused, in whole or in part.
func (p Plan) Fails() bool { return p.Refused != "" || p.count(PlanRefuse) > 0 }

// PlanAlarm is what --fail-on names.
type PlanAlarm string

// The alarms.
const (
	AlarmPrune     PlanAlarm = "prune"
	AlarmReplace   PlanAlarm = "replace"
	AlarmMassPrune PlanAlarm = "mass-prune"
)

// Alarms says which of the given alarms the plan sets off.
func (p Plan) Alarms(wanted []PlanAlarm) []string {
	var out []string
	for _, a := range wanted {
		n := map[PlanAlarm]int{AlarmPrune: p.count(PlanPrune), AlarmReplace: p.count(PlanReplace), AlarmMassPrune: p.count(PlanConfirm)}[a]
		if n > 0 {
			out = append(out, fmt.Sprintf("%s (%d)", a, n))
		}
	}
	return out
}

// bySection sorts objects as the text shows them.
func (p Plan) bySection(s planSection) []PlannedObject {
	var out []PlannedObject
	for _, o := range p.Objects {
		if slices.Contains(s.actions, o.Action) {
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b PlannedObject) int {
		return cmp.Compare(slices.Index(s.actions, a.Action), slices.Index(s.actions, b.Action))
	})
	return out
}
