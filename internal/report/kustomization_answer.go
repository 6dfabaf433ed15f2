package report

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
)

// KustomizationAnswer is the answer of `holdfast why NAME`.
type KustomizationAnswer struct {
	Kustomization Kustomization `json:"kustomization"`
	// Message is the message of the condition Ready.
	Message string `json:"message,omitempty"`
	// Causes are the objects that are not healthy, with a look at their pods.
	Causes []Cause `json:"causes,omitempty"`
	// Safe are the workloads among them whose pods of an older revision are still ready.
	Safe []Safe `json:"safe,omitempty"`
	// Retained are the planner's own records of what is kept, from status.rollout.retained.
	Retained []v1.RetainedObject `json:"retained,omitempty"`
	// Root is where a chain of waiting begins, and Chain leads from this Kustomization to it.
	Root  *Kustomization `json:"root,omitempty"`
	Chain []string       `json:"chain,omitempty"`
	// WaitingOnThis are the Kustomizations that wait for this one.
	WaitingOnThis []string `json:"waitingOnThis,omitempty"`
	// Source is the source, where it could be read.
	Source *Source `json:"source,omitempty"`
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

// Safe is a workload that still runs on an older revision.
type Safe struct {
	// Workload as Kind/namespace/name.
	Workload string `json:"workload"`
	// ReadyOldPods is the number of ready pods of older revisions, Wanted how many pods it wants.
	ReadyOldPods int   `json:"readyOldPods"`
	Wanted       int32 `json:"wanted"`
}

// SeenKustomization is what was read for an answer about a Kustomization.
type SeenKustomization struct {
	Kustomization *v1.Kustomization
	// Others are all Kustomizations that could be read, for dependencies and dependents.
	Others  []v1.Kustomization
	Sources []Source
	// Pods has the pods in trouble by culprit, and Safe the workloads that still run.
	Pods    map[string][]PodTrouble
	Safe    []Safe
	Missing []string
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
		a.Retained = r.Retained
	}
	for i := range seen.Sources {
		if seen.Sources[i].key() == a.Kustomization.Source {
			a.Source = &seen.Sources[i]
		}
	}
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
	if len(a.Chain) > 0 {
		a.Chain = append(a.Chain, at.Key())
		a.Root = &at
	}
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

// maxNextKept bounds the hints about kept objects.
const maxNextKept = 2

// next are steps that exist and help in the state.
func (a *KustomizationAnswer) next(ks *v1.Kustomization) []string {
	k := a.Kustomization
	var steps []string
	switch k.State {
	case Held, Verifying:
		steps = append(steps, "push a fix: it is taken at once, nothing has to be stopped first")
	case Refused:
		if isStalled(ks) {
			steps = append(steps, "change the spec as the message says: it is taken at once")
		} else {
			steps = append(steps, "push a fix: it is taken at once; the same revision is tried again every "+ks.Flux().GetRetryInterval().String())
		}
	case NeedsConfirmation:
		if isStalled(ks) {
			steps = append(steps, "add manifests to the path again, or a kustomization.yaml with `resources: []` to empty it on purpose")
		}
		steps = append(steps, fmt.Sprintf("holdfast confirm %s -n %s --plan   what would be deleted, and how to allow it", k.Name, k.Namespace))
	case Paused:
		steps = append(steps, fmt.Sprintf("kubectl patch kustomizations.kustomize.toolkit.fluxcd.io %s -n %s --type=merge -p '{\"spec\":{\"suspend\":false}}'", k.Name, k.Namespace))
	case Waiting:
		steps = append(steps, a.nextWaiting()...)
	default:
		// On its way, or there: nothing to do.
	}
	for i, r := range a.Retained {
		if i == maxNextKept {
			break
		}
		steps = append(steps, whyCommand(r))
	}
	return steps
}

func (a *KustomizationAnswer) nextWaiting() []string {
	switch {
	case a.Root != nil && a.Root.Key() != a.Kustomization.Key():
		return []string{fmt.Sprintf("holdfast why %s -n %s", a.Root.Name, a.Root.Namespace)}
	case len(a.Chain) > 0:
		return []string{"create Kustomization " + a.Chain[len(a.Chain)-1] + ", or correct spec.dependsOn"}
	case a.Source != nil && a.Source.State != Healthy:
		return []string{fmt.Sprintf("mend %s %s/%s: %s", a.Source.Kind, a.Source.Namespace, a.Source.Name, orElse(a.Source.Why, a.Source.State.lower()))}
	case a.Message == "":
		return []string{"see whether a controller runs and looks at namespace " + a.Kustomization.Namespace + ": `holdfast run --help`, `holdfast install --help`"}
	}
	return nil
}
