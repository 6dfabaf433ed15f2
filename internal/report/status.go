package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/policy"
)

// Status is the answer of `holdfast status`.
type Status struct {
	// Kustomizations, those first that need a person.
	Kustomizations []Kustomization `json:"kustomizations"`
	// Sources that Kustomizations follow.
	Sources []Source `json:"sources"`
	// Summary counts what is listed.
	Summary Summary `json:"summary"`
	// MissingRights say what could not be read, and what is not shown for it.
	MissingRights []string `json:"missingRights,omitempty"`
	// Where is where was looked, in words.
	Where Where `json:"-"`
}

// Where is the namespace that was looked in; empty for all.
type Where string

func (w Where) text() string {
	if w == "" {
		return "in any namespace"
	}
	return fmt.Sprintf("in namespace %s; -A looks in all", string(w))
}

// Kustomization is one Kustomization.
type Kustomization struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Ready is the status of the condition Ready: True, False or Unknown.
	Ready string `json:"ready"`
	// Runs is the last revision that was seen healthy: what the pods that are ready serve. Empty if none was.
	Runs string `json:"runs,omitempty"`
	// Wants is the newest revision of the source, or the last one tried where the source can't be read.
	Wants string `json:"wants,omitempty"`
	// Since is when the state began.
	Since *metav1.Time `json:"since,omitempty"`
	// Deadline is when a verification gives up.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// Why says in one line what keeps it from being healthy.
	Why string `json:"why,omitempty"`
	// Kept is the number of objects that are kept from pruning.
	Kept int32 `json:"kept"`
	// KeptForYou is how many of them need a person to go.
	KeptForYou int32 `json:"keptForYou,omitempty"`
	// Source is the source as Kind/namespace/name.
	Source string `json:"source"`
	// WaitsFor are the Kustomizations that it depends on and that are not healthy, as namespace/name.
	WaitsFor []string `json:"waitsFor,omitempty"`
}

// Key is namespace/name.
func (k Kustomization) Key() string { return k.Namespace + "/" + k.Name }

// Source is one source.
type Source struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is Healthy, Refused, Waiting, Paused or Deleting.
	State State  `json:"state"`
	URL   string `json:"url,omitempty"`
	// Revision of the artifact that it offers.
	Revision string `json:"revision,omitempty"`
	// Offered is since when it offers that revision.
	Offered *metav1.Time `json:"offered,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	Why     string       `json:"why,omitempty"`
}

// Summary counts.
type Summary struct {
	// Total is the number of Kustomizations, States how many are in each state.
	Total  int           `json:"total"`
	States map[State]int `json:"states"`
	// Kept and KeptForYou are the sums over the Kustomizations.
	Kept       int32 `json:"kept"`
	KeptForYou int32 `json:"keptForYou"`
	// SourcesFailing is the number of sources whose newer commits are not seen.
	SourcesFailing int `json:"sourcesFailing,omitempty"`
}

// StatusOf makes the answer out of the objects.
func StatusOf(kustomizations []v1.Kustomization, sources []sourcev1.GitRepository, missing []string) Status {
	s := Status{Kustomizations: []Kustomization{}, Sources: []Source{}, MissingRights: missing}
	for i := range sources {
		s.Sources = append(s.Sources, SourceOf(&sources[i]))
	}
	for i := range kustomizations {
		s.Kustomizations = append(s.Kustomizations, KustomizationOf(&kustomizations[i], s.Sources))
	}
	s.Kustomizations = arranged(withWaits(s.Kustomizations, kustomizations))
	slices.SortStableFunc(s.Sources, compareSources)
	s.Summary = summaryOf(s.Kustomizations)
	for _, source := range s.Sources {
		if source.State == Refused {
			s.Summary.SourcesFailing++
		}
	}
	return s
}

// KustomizationOf reads one Kustomization. The sources tell what is wanted now.
func KustomizationOf(ks *v1.Kustomization, sources []Source) Kustomization {
	k := Kustomization{Namespace: ks.Namespace, Name: ks.Name, State: stateOf(ks), Ready: string(metav1.ConditionUnknown)}
	if ready := readyOf(ks); ready != nil {
		k.Ready = string(ready.Status)
		k.Since = &ready.LastTransitionTime
	}
	k.Why = whyOf(ks, k.State)
	k.Runs = runs(ks)
	k.Source = sourceKey(ks)
	k.Wants = wants(ks, k.Source, sources)
	if r := ks.Status.Rollout; r != nil {
		k.Kept = r.RetainedCount
		k.KeptForYou = forYou(r.Retained)
		if State(r.Phase) == k.State && r.Since != nil {
			k.Since = r.Since
		}
		if k.State == Refused {
			k.Since = refusedSince(ks, k, sources)
		}
		if k.State == Verifying {
			k.Deadline = r.Deadline
		}
	}
	switch {
	case k.State == Deleting:
		k.Since = ks.DeletionTimestamp
	case k.State == Paused:
		k.Since = suspendedSince(ks)
	case k.Since != nil && k.Since.IsZero():
		k.Since = nil
	}
	return k
}

// runs is the revision that the ready pods serve. What was applied last may be the one that fails: without spec.wait it
// becomes status.lastAppliedRevision at once.
func runs(ks *v1.Kustomization) string {
	r := ks.Status.Rollout
	switch {
	case r == nil:
		return ks.Status.LastAppliedRevision
	case r.LastHealthy != nil:
		return r.LastHealthy.Revision
	case r.Phase == v1.PhaseHealthy, r.Phase == v1.PhasePruning, r.Wanted == nil:
		return ks.Status.LastAppliedRevision
	case ks.Status.LastAppliedRevision != r.Wanted.Revision:
		return ks.Status.LastAppliedRevision // from before this status was written
	}
	return ""
}

// refusedSince is since when this very revision, or this spec, is refused. The phase may have begun with an older one.
func refusedSince(ks *v1.Kustomization, k Kustomization, sources []Source) *metav1.Time {
	if c := apimeta.FindStatusCondition(ks.Status.Conditions, fluxmeta.StalledCondition); c != nil {
		if c.LastTransitionTime.IsZero() {
			return k.Since
		}
		return &c.LastTransitionTime
	}
	for _, s := range sources {
		if s.key() == k.Source && s.Offered != nil && (k.Since == nil || k.Since.Before(s.Offered)) {
			return s.Offered
		}
	}
	return k.Since
}

// suspendedSince is when the manager that set spec.suspend last wrote; nothing else records it.
func suspendedSince(ks *v1.Kustomization) *metav1.Time {
	if pause := policy.PauseOf(ks, time.Now()); pause != nil && !ks.Spec.Suspend {
		if pause.At.IsZero() {
			return nil
		}
		return &metav1.Time{Time: pause.At}
	}
	for _, entry := range ks.ManagedFields {
		if entry.FieldsV1 != nil && entry.Time != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:suspend"`) {
			return entry.Time
		}
	}
	return nil
}

func sourceKey(ks *v1.Kustomization) string {
	ref := ks.Spec.SourceRef
	namespace := ref.Namespace
	if namespace == "" {
		namespace = ks.Namespace
	}
	return ref.Kind + "/" + namespace + "/" + ref.Name
}

func wants(ks *v1.Kustomization, source string, sources []Source) string {
	for _, s := range sources {
		if s.key() == source && s.Revision != "" {
			return s.Revision
		}
	}
	if r := ks.Status.Rollout; r != nil && r.Wanted != nil && ks.Status.LastAttemptedRevision == "" {
		return r.Wanted.Revision
	}
	return ks.Status.LastAttemptedRevision
}

// forYou counts the kept objects that only a person can let go of.
func forYou(retained []v1.RetainedObject) int32 {
	var n int32
	for _, r := range retained {
		if r.Reason == v1.RetainedAwaitingConfirmation || r.Reason == v1.RetainedDeleteFailed {
			n++
		}
	}
	return n
}

func (s Source) key() string { return s.Kind + "/" + s.Namespace + "/" + s.Name }

// SourceOf reads one source.
func SourceOf(g *sourcev1.GitRepository) Source {
	s := Source{Kind: sourcev1.GitRepositoryKind, Namespace: g.Namespace, Name: g.Name, URL: g.Spec.URL, State: Waiting, Why: notSeen}
	if g.Status.Artifact != nil {
		s.Revision = g.Status.Artifact.Revision
		if at := g.Status.Artifact.LastUpdateTime; !at.IsZero() {
			s.Offered = &at
		}
	}
	if ready := apimeta.FindStatusCondition(g.Status.Conditions, fluxmeta.ReadyCondition); ready != nil {
		s.Since = &ready.LastTransitionTime
		switch ready.Status {
		case metav1.ConditionTrue:
			s.State, s.Why = Healthy, ""
		case metav1.ConditionFalse:
			s.State, s.Why = Refused, firstLine(ready.Message)
		default:
			s.Why = firstLine(ready.Message)
		}
	}
	switch {
	case g.DeletionTimestamp != nil:
		s.State, s.Since, s.Why = Deleting, g.DeletionTimestamp, ""
	case g.Spec.Suspend:
		s.State, s.Since, s.Why = Paused, nil, "spec.suspend is true"
	}
	return s
}

func summaryOf(all []Kustomization) Summary {
	s := Summary{Total: len(all), States: map[State]int{}}
	for _, k := range all {
		s.States[k.State]++
		s.Kept += k.Kept
		s.KeptForYou += k.KeptForYou
	}
	return s
}

// NotHealthy returns the answer without what is Healthy. The summary still counts everything.
func (s Status) NotHealthy() Status {
	s.Kustomizations = slices.DeleteFunc(slices.Clone(s.Kustomizations), func(k Kustomization) bool { return k.State == Healthy })
	s.Sources = slices.DeleteFunc(slices.Clone(s.Sources), func(o Source) bool { return o.State == Healthy })
	return s
}

// Findings tells whether anything is not Healthy.
func (s Status) Findings() bool {
	rest := s.NotHealthy()
	return len(rest.Kustomizations)+len(rest.Sources) > 0
}
