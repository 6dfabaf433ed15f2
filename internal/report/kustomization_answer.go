package report

import (
	"slices"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// KustomizationAnswer is the answer of `holdfast why NAME`.
type KustomizationAnswer struct {
	Kustomization Kustomization `json:"kustomization"`
	// Message is the message of the condition Ready.
	Message string `json:"message,omitempty"`
	// Causes are the objects that are not healthy, with a look at their pods.
	Causes []Cause `json:"causes,omitempty"`
	// Safe are the workloads that still run, and those that do not: with no pod ready.
	Safe []Safe `json:"safe,omitempty"`
	// NothingApplied is true where the wanted revision was refused before its first write.
	NothingApplied bool `json:"nothingApplied,omitempty"`
	// Retained are the planner's own records of what is kept, from status.rollout.retained.
	Retained []v1.RetainedObject `json:"retained,omitempty"`
	// Gone are retained objects that are not on the cluster any more, with those that still refer to them.
	Gone []Gone `json:"gone,omitempty"`
	// Absent are the other objects of the inventory that are not on the cluster, as Kind/namespace/name.
	Absent []string `json:"absent,omitempty"`
	// Shared are objects that are in the inventory of another Kustomization, too.
	Shared []Shared `json:"shared,omitempty"`
	// Root is where a chain of waiting begins, and Chain leads from this Kustomization to it.
	Root  *Kustomization `json:"root,omitempty"`
	Chain []string       `json:"chain,omitempty"`
	// Circle are Kustomizations that wait for each other.
	Circle []string `json:"circle,omitempty"`
	// WaitingOnThis are the Kustomizations that wait for this one.
	WaitingOnThis []string `json:"waitingOnThis,omitempty"`
	// Source is the source, where it could be read.
	Source *Source `json:"source,omitempty"`
	// SourceTrouble says why newer commits are not seen.
	SourceTrouble string `json:"sourceTrouble,omitempty"`
	// Next are steps that help.
	Next []string `json:"next,omitempty"`
	// MissingRights say what could not be read.
	MissingRights []string `json:"missingRights,omitempty"`
}

// Cause is an object that is not healthy.
type Cause struct {
	v1.Culprit `json:",inline"`
	// Pods are pods of it that are in trouble; at most 5.
	Pods []PodTrouble `json:"pods,omitempty"`
}

// PodTrouble is a pod that does not run as it should.
type PodTrouble struct {
	Pod       string `json:"pod"`
	Container string `json:"container,omitempty"`
	// Reason is the word of Kubernetes, such as ImagePullBackOff.
	Reason   string       `json:"reason"`
	Message  string       `json:"message,omitempty"`
	Restarts int32        `json:"restarts,omitempty"`
	Since    *metav1.Time `json:"since,omitempty"`
}

// Safe is a workload and how much of it still runs.
type Safe struct {
	// Workload as Kind/namespace/name.
	Workload string `json:"workload"`
	// ReadyOldPods is the number of ready pods of older revisions, Wanted how many pods it wants.
	ReadyOldPods int   `json:"readyOldPods"`
	Wanted       int32 `json:"wanted"`
	// ReadyPods is the number of ready pods of any revision.
	ReadyPods int `json:"readyPods"`
}

// Gone is an object that was kept and was taken away by someone else.
type Gone struct {
	// Object as Kind/namespace/name.
	Object string `json:"object"`
	// Users are those that still refer to it.
	Users []string `json:"users,omitempty"`
}

// Shared is an object in more than one inventory.
type Shared struct {
	// Object as Kind/namespace/name.
	Object string `json:"object"`
	// With are the other Kustomizations, as namespace/name.
	With []string `json:"with"`
}

// SeenKustomization is what was read for an answer about a Kustomization.
type SeenKustomization struct {
	Kustomization *v1.Kustomization
	// Others are all Kustomizations that could be read, for dependencies and dependents.
	Others  []v1.Kustomization
	Sources []Source
	// Pods has the pods in trouble by culprit, and Safe the workloads that still run.
	Pods map[string][]PodTrouble
	Safe []Safe
	// Absent has the inventory entries that a working API said do not exist, with those that refer to each.
	Absent map[string][]string
	// SourceAbsent is true when a working API said that there is no such source.
	SourceAbsent bool
	Missing      []string
}

// KustomizationAnswerOf makes the answer.
func KustomizationAnswerOf(seen SeenKustomization) KustomizationAnswer {
	ks := seen.Kustomization
	rows := map[string]Kustomization{}
	for _, k := range StatusOf(append([]v1.Kustomization{*ks}, seen.Others...), nil, nil).Kustomizations {
		rows[k.Key()] = k
	}
	a := KustomizationAnswer{Kustomization: KustomizationOf(ks, seen.Sources), Safe: seen.Safe, MissingRights: seen.Missing}
	a.Kustomization.WaitsFor = rows[a.Kustomization.Key()].WaitsFor
	if ready := readyOf(ks); ready != nil {
		a.Message = ready.Message
	}
	if a.Kustomization.State == NeedsConfirmation {
		a.Message = a.Kustomization.Why // Ready says that all is well
	}
	if r := ks.Status.Rollout; r != nil {
		for _, c := range r.Culprits {
			a.Causes = append(a.Causes, Cause{Culprit: c, Pods: seen.Pods[c.ID]})
		}
		a.retain(r.Retained, seen.Absent)
	}
	a.Absent = absent(ks, seen.Absent)
	a.Shared = shared(ks, seen.Others)
	a.NothingApplied = a.Kustomization.State == Refused && nothingApplied(ks)
	for i := range seen.Sources {
		if seen.Sources[i].key() == a.Kustomization.Source {
			a.Source = &seen.Sources[i]
		}
	}
	a.SourceTrouble = sourceTrouble(a.Source, a.Kustomization.Source, seen.SourceAbsent)
	a.follow(rows)
	a.WaitingOnThis = waiters(a.Kustomization, seen.Others)
	a.Next = a.next(ks)
	return a
}

// follow finds the root of what it waits for: the first Kustomization on the way that does not wait for another one.
func (a *KustomizationAnswer) follow(rows map[string]Kustomization) {
	at := a.Kustomization
	for len(at.WaitsFor) > 0 && !slices.Contains(a.Chain, at.Key()) {
		a.Chain = append(a.Chain, at.Key())
		next, ok := rows[at.WaitsFor[0]]
		if !ok {
			a.Chain = append(a.Chain, at.WaitsFor[0])
			return
		}
		at = next
	}
	if len(a.Chain) == 0 {
		return
	}
	if i := slices.Index(a.Chain, at.Key()); i >= 0 {
		a.Circle = slices.Clone(a.Chain[i:])
	} else {
		a.Root = &at
	}
	a.Chain = append(a.Chain, at.Key())
}

// retain takes over what is kept, apart from what is gone.
func (a *KustomizationAnswer) retain(retained []v1.RetainedObject, absent map[string][]string) {
	for _, r := range retained {
		users, gone := absent[r.ID]
		if !gone {
			a.Retained = append(a.Retained, r)
			continue
		}
		if len(users) == 0 {
			users = r.Users
		}
		a.Gone = append(a.Gone, Gone{Object: plainID(r.ID), Users: users})
	}
}

// absent are the objects that are wanted and not on the cluster.
func absent(ks *v1.Kustomization, seen map[string][]string) []string {
	var ids []string
	for id := range seen {
		kept := ks.Status.Rollout != nil &&
			slices.ContainsFunc(ks.Status.Rollout.Retained, func(r v1.RetainedObject) bool { return r.ID == id })
		if !kept {
			ids = append(ids, plainID(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// plainID turns an inventory entry into Kind/namespace/name.
func plainID(inventoryID string) string {
	id, err := object.ParseInventory(inventoryID)
	if err != nil {
		return inventoryID
	}
	return id.String()
}

// shared finds objects that other inventories have, too.
func shared(ks *v1.Kustomization, others []v1.Kustomization) []Shared {
	if ks.Status.Inventory == nil {
		return nil
	}
	with := map[string][]string{}
	for i := range others {
		if others[i].Status.Inventory == nil {
			continue
		}
		for _, entry := range others[i].Status.Inventory.Entries {
			with[entry.ID] = append(with[entry.ID], others[i].Namespace+"/"+others[i].Name)
		}
	}
	var found []Shared
	for _, entry := range ks.Status.Inventory.Entries {
		if keys := with[entry.ID]; len(keys) > 0 {
			slices.Sort(keys)
			found = append(found, Shared{Object: plainID(entry.ID), With: keys})
		}
	}
	return found
}

// nothingApplied tells whether what was refused was refused before its first write. A stage that the API server refuses
// may follow others that it took.
func nothingApplied(ks *v1.Kustomization) bool {
	if isStalled(ks) {
		return true
	}
	ready := readyOf(ks)
	return ready != nil && (ready.Reason == fluxmeta.BuildFailedReason || ready.Reason == fluxmeta.ArtifactFailedReason)
}

// sourceTrouble says what keeps a source from showing newer commits.
func sourceTrouble(s *Source, key string, absent bool) string {
	switch {
	case absent:
		return spaced(key) + " does not exist"
	case s == nil:
		return ""
	}
	name := spaced(s.key())
	switch s.State {
	case Refused:
		return orElse(s.Why, "no reason is given")
	case Paused:
		return name + " is suspended"
	case Deleting:
		return name + " is being deleted"
	case Waiting:
		if s.Revision == "" {
			return name + " offers nothing yet: " + orElse(s.Why, notSeen)
		}
	default:
		// It shows what there is.
	}
	return ""
}

// waiters are those that depend on a Kustomization that is not healthy.
func waiters(k Kustomization, others []v1.Kustomization) []string {
	if k.State == Healthy {
		return nil
	}
	var keys []string
	for i := range others {
		if slices.Contains(dependencies(&others[i]), k.Key()) {
			keys = append(keys, others[i].Namespace+"/"+others[i].Name)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
