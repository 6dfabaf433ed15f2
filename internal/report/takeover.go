package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/rival"
)

// DefinitionState says whose definition of Kustomizations the cluster has.
type DefinitionState string

// The states of the definition.
const (
	DefinitionOwn    DefinitionState = "holdfast"
	DefinitionFlux   DefinitionState = "flux"
	DefinitionAbsent DefinitionState = "absent"
)

// Finding is something that is in the way, and what to do about it.
type Finding struct {
	// Subject is what it is about, as Kind/namespace/name or a name.
	Subject string `json:"subject"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Do are commands or steps.
	Do []string `json:"do,omitempty"`
}

// Takeover is the answer of `holdfast takeover --check`: what happens when holdfast takes over from Flux.
type Takeover struct {
	// Ready is true when nothing is in the way.
	Ready bool `json:"ready"`
	// Findings have to be dealt with before.
	Findings []Finding `json:"findings"`
	// Rivals are the controllers that are at work.
	Rivals []rival.Alive `json:"rivals"`
	// Definition says whose definition of Kustomizations is installed.
	Definition DefinitionState `json:"definition"`
	// Kustomizations are what is taken over.
	Kustomizations []TakenOver `json:"kustomizations"`
	// Managers counts the objects of all inventories by the field managers that wrote them.
	Managers []ManagerCount `json:"managers"`
	// Left are the entries that Flux left behind, and objects that the first apply changes, with what becomes of them.
	Left []LeftEntry `json:"left"`
	// Patch is what to add in Git, as kustomize patches, so that the repository no longer holds what holdfast does not apply; PatchIn
	// are the Kustomizations it is for, and FluxInstances those of Flux's operator, which no patch of a Kustomization reaches.
	Patch         string   `json:"patch,omitempty"`
	PatchIn       []string `json:"patchIn,omitempty"`
	FluxInstances []string `json:"fluxInstances,omitempty"`
	// MissingRights are what could not be read.
	MissingRights []string `json:"missingRights,omitempty"`
}

// TakenOver is one Kustomization as Flux left it.
type TakenOver struct {
	// Kustomization as namespace/name.
	Kustomization string `json:"kustomization"`
	State         State  `json:"state"`
	Revision      string `json:"revision,omitempty"`
	// Objects of the inventory; Same of them are as Flux applied them, Left are listed one by one.
	Objects int `json:"objects"`
	Same    int `json:"same"`
	Left    int `json:"left"`
	// Elsewhere is true for one whose objects are on another cluster, where nobody looked.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Attempted is a newer revision that Flux tried, and that failed.
	Attempted string `json:"attempted,omitempty"`
}

// ManagerCount is a field manager and the number of objects that it wrote.
type ManagerCount struct {
	Manager string `json:"manager"`
	Objects int    `json:"objects"`
}

// LeftEntry is an entry of an inventory that is not as Flux applied it, and what becomes of it.
type LeftEntry struct {
	Kustomization string `json:"kustomization"`
	// Object as Kind/namespace/name.
	Object string `json:"object"`
	Why    string `json:"why"`
	Then   string `json:"then"`
}

// TakeoverFacts are what was read for the answer.
type TakeoverFacts struct {
	Kustomizations []v1.Kustomization
	// Objects of the inventories: nil for one that does not exist; one that could not be read is missing, with its error in Unread.
	Objects map[object.ID]*metav1.PartialObjectMetadata
	Unread  map[object.ID]string
	// Rivals that are at work, and the workloads that run them.
	Rivals     []rival.Alive
	Workloads  []Workload
	Definition DefinitionState
	// FluxInstances are the objects of Flux's operator.
	FluxInstances []string
	Missing       []string
}

// Workload is an installed controller of Flux.
type Workload struct {
	ID         object.ID
	Controller string
	// Stopped is true when it asks for no pods, and InGit when whoever applies it says so.
	Stopped, InGit bool
}

// TakeoverOf makes the answer.
func TakeoverOf(f TakeoverFacts, now time.Time) Takeover {
	a := Takeover{Findings: []Finding{}, Rivals: f.Rivals, Definition: f.Definition, Kustomizations: []TakenOver{}, Managers: []ManagerCount{},
		Left: []LeftEntry{}, FluxInstances: f.FluxInstances, MissingRights: f.Missing}
	managers := map[string]int{}
	for i := range f.Kustomizations {
		a.take(&f.Kustomizations[i], f, managers)
	}
	for name, n := range managers {
		a.Managers = append(a.Managers, ManagerCount{Manager: name, Objects: n})
	}
	slices.SortFunc(a.Managers, func(x, y ManagerCount) int {
		if x.Objects != y.Objects {
			return y.Objects - x.Objects
		}
		return strings.Compare(x.Manager, y.Manager)
	})
	a.findRivals(f, now)
	a.findDefinition()
	a.advise(f)
	a.Ready = len(a.Findings) == 0
	return a
}

// take adds one Kustomization.
func (a *Takeover) take(ks *v1.Kustomization, f TakeoverFacts, managers map[string]int) {
	t := TakenOver{Kustomization: ks.Namespace + "/" + ks.Name, State: stateOf(ks), Revision: ks.Status.LastAppliedRevision,
		Elsewhere: ks.Spec.KubeConfig != nil}
	if attempted := ks.Status.LastAttemptedRevision; attempted != t.Revision {
		t.Attempted = attempted
	}
	inv := inventory.Decode(ks.Status.Inventory)
	t.Objects = inv.Len()
	for _, entry := range inv.Entries() {
		if t.Elsewhere {
			continue
		}
		live, known := f.Objects[entry.ID]
		left := leftOf(ks, entry.ID, live, known, f.Unread[entry.ID])
		if live != nil {
			for _, manager := range managersOf(live) {
				managers[manager]++
			}
		}
		if left == nil {
			t.Same++
			continue
		}
		t.Left++
		a.Left = append(a.Left, *left)
	}
	a.Kustomizations = append(a.Kustomizations, t)
}

// leftOf says how an entry differs from what Flux applies; nil when it does not.
func leftOf(ks *v1.Kustomization, id object.ID, live *metav1.PartialObjectMetadata, known bool, unread string) *LeftEntry {
	left := &LeftEntry{Kustomization: ks.Namespace + "/" + ks.Name, Object: id.String()}
	switch {
	case isDefinition(id):
		return nil // never written, whoever applied it last
	case !known:
		left.Why, left.Then = "it can't be read: "+unread, "it is kept for as long as it can't be read"
	case live == nil:
		left.Why, left.Then = "it does not exist", "it is created if it is in the source; else the entry is dropped"
	case live.Labels[v1.OwnerNameLabel] == "":
		left.Why, left.Then = "it has no owner labels", "it is labelled if it is in the source; else it is left alone, and the entry is dropped"
	case live.Labels[v1.OwnerNameLabel] != ks.Name || live.Labels[v1.OwnerNamespaceLabel] != ks.Namespace:
		left.Why = fmt.Sprintf("its owner labels name Kustomization %s/%s", live.Labels[v1.OwnerNamespaceLabel], live.Labels[v1.OwnerNameLabel])
		left.Then = "if both want it, each sets it back at its interval; else the entry is dropped, and it is left alone"
	case live.DeletionTimestamp != nil:
		left.Why, left.Then = "it is being deleted", "it is awaited, and created again if it is in the source"
	case !slices.Contains(managersOf(live), v1.ApplyManager):
		left.Why, left.Then = "kustomize-controller did not write it", "its fields are taken over by the first apply, if it is in the source"
	default:
		return nil
	}
	return left
}

// managersOf are the field managers of an object, without those that write its status only.
func managersOf(obj *metav1.PartialObjectMetadata) []string {
	var names []string
	for _, entry := range obj.ManagedFields {
		if entry.Subresource == "" && !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
	}
	return names
}

func (a *Takeover) findRivals(f TakeoverFacts, now time.Time) {
	for _, r := range f.Rivals {
		do := []string{r.StopCommand()}
		if len(f.FluxInstances) > 0 {
			do = append([]string{instanceCommand(f.FluxInstances[0])}, do...)
		}
		a.Findings = append(a.Findings, Finding{Subject: r.Controller, Message: r.Text(now), Do: do})
	}
	for _, w := range f.Workloads {
		if w.Stopped || slices.ContainsFunc(f.Rivals, func(r rival.Alive) bool { return r.Controller == w.Controller }) {
			continue
		}
		a.Findings = append(a.Findings, Finding{Subject: w.ID.String(), Message: w.ID.String() + " runs " + w.Controller + ", or will",
			Do: []string{fmt.Sprintf("kubectl scale %s %s -n %s --replicas=0", strings.ToLower(w.ID.Kind), w.ID.Name, w.ID.Namespace)}})
	}
}

// instanceCommand keeps Flux's operator from starting again what was stopped.
func instanceCommand(instance string) string {
	namespace, name, _ := strings.Cut(instance, "/")
	return fmt.Sprintf("kubectl annotate fluxinstance %s -n %s fluxcd.controlplane.io/reconcile=disabled   (and the same in Git)", name, namespace)
}

func (a *Takeover) findDefinition() {
	switch a.Definition {
	case DefinitionFlux:
		a.Findings = append(a.Findings, Finding{Subject: rival.Definition, Message: "the definition of Kustomizations is Flux's: it drops what holdfast has to remember",
			Do: []string{"holdfast install --crds-only --force-conflicts"}})
	case DefinitionAbsent:
		a.Findings = append(a.Findings, Finding{Subject: rival.Definition, Message: "there is no definition of Kustomizations", Do: []string{"holdfast install --crds-only"}})
	case DefinitionOwn:
	}
}

// advise finds the Kustomizations whose repository holds Flux itself, and what to patch there.
func (a *Takeover) advise(f TakeoverFacts) {
	patches := map[string]bool{}
	for i := range f.Kustomizations {
		ks := &f.Kustomizations[i]
		found := false
		if phaseOf(ks) != "" && !apimeta.IsStatusConditionTrue(ks.Status.Conditions, v1.RivalSkippedCondition) {
			continue // holdfast has built it, and found nothing to skip
		}
		for _, entry := range inventory.Decode(ks.Status.Inventory).Entries() {
			patch := patchOf(entry.ID, f.Workloads)
			if patch != "" && ks.Spec.KubeConfig == nil {
				patches[patch], found = true, true
			}
		}
		if found {
			a.PatchIn = append(a.PatchIn, ks.Namespace+"/"+ks.Name)
		}
	}
	if len(patches) == 0 {
		return
	}
	lines := make([]string, 0, len(patches))
	for patch := range patches {
		lines = append(lines, patch)
	}
	slices.Sort(lines)
	a.Patch = "patches:\n" + strings.Join(lines, "")
}

// isDefinition tells whether an object is the definition of Kustomizations.
func isDefinition(id object.ID) bool {
	return id.Kind == "CustomResourceDefinition" && id.Name == rival.Definition
}

// patchOf is what keeps an object of Flux in Git from being in the way; empty for every other object. The definition stays in the
// repository: Flux would delete it, and all Kustomizations with it, once it was gone from there.
func patchOf(id object.ID, workloads []Workload) string {
	if isDefinition(id) {
		return "- target: {kind: CustomResourceDefinition, name: " + rival.Definition + "}\n" +
			"  patch: |\n    - {op: add, path: /metadata/annotations/kustomize.toolkit.fluxcd.io~1ssa, value: Ignore}\n"
	}
	for _, w := range workloads {
		if w.ID == id && !(w.Stopped && w.InGit) {
			return fmt.Sprintf("- target: {kind: %s, name: %s}\n  patch: |\n    - {op: add, path: /spec/replicas, value: 0}\n", id.Kind, id.Name)
		}
	}
	return ""
}
