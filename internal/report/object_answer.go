package report

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Standing says what an object is to the Kustomizations.
type Standing string

// The standings of an object.
const (
	// Kept: it left the source of its Kustomization and is kept from pruning.
	Kept Standing = "Kept"
	// Wanted: its Kustomization wants it.
	Wanted Standing = "Wanted"
	// Foreign: a Kustomization has it in its inventory, but its owner labels name another one or none.
	Foreign Standing = "Foreign"
	// LeftBehind: its owner labels name a Kustomization that does not have it in its inventory, or that is gone.
	LeftBehind Standing = "LeftBehind"
	// Made: it was made by something that a Kustomization has, as pods are by a Deployment.
	Made Standing = "Made"
	// Unmanaged: no Kustomization has to do with it.
	Unmanaged Standing = "Unmanaged"
	// Unclear: rights were missing to tell.
	Unclear Standing = "Unclear"
)

// ObjectAnswer is the answer of `holdfast why KIND/NAME`.
type ObjectAnswer struct {
	Object ObjectRef `json:"object"`
	// Exists is false for an object that only an inventory still knows.
	Exists   bool     `json:"exists"`
	Standing Standing `json:"standing"`
	// Kustomization is the one that manages the object.
	Kustomization *Kustomization `json:"kustomization,omitempty"`
	// Retained is the planner's own record of a kept object, from status.rollout.retained.
	Retained *v1.RetainedObject `json:"retained,omitempty"`
	// OwnerLabels is the Kustomization that the labels of the object name, as namespace/name.
	OwnerLabels string `json:"ownerLabels,omitempty"`
	// Inventories are the Kustomizations that have it in their inventory, as namespace/name.
	Inventories []string `json:"inventories,omitempty"`
	// MadeBy is the object that controls this one, as Kind/namespace/name.
	MadeBy string `json:"madeBy,omitempty"`
	// Makers lead from there up to the first that nothing else controls, as Kind/namespace/name.
	Makers []string `json:"makers,omitempty"`
	// Trouble is what keeps a pod from being ready.
	Trouble *PodTrouble `json:"trouble,omitempty"`
	// Source is what is asked about, if it is a source, and FollowedBy the Kustomizations that follow it.
	Source     *Source  `json:"source,omitempty"`
	FollowedBy []string `json:"followedBy,omitempty"`
	// UsedBy are those that refer to it, as the planner finds them.
	UsedBy []string `json:"usedBy,omitempty"`
	// UsersUnknown says why the users could not be listed.
	UsersUnknown string `json:"usersUnknown,omitempty"`
	// MissingRights say what could not be read.
	MissingRights []string `json:"missingRights,omitempty"`

	// looked is true when its users were looked for.
	looked bool
}

// ObjectRef names an object.
type ObjectRef struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (r ObjectRef) id() object.ID {
	return object.ID{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// SeenObject is what was read of an object.
type SeenObject struct {
	ID object.ID
	// Exists is false when a working API said that it does not, and Unread says why it could not be read.
	Exists bool
	Unread string
	// Meta is its metadata; nil when it was not read.
	Meta metav1.Object
	// Looked is true when its users were looked for; Users and UsersUnknown are what was found.
	Looked       bool
	Users        []string
	UsersUnknown string
	// Makers lead from what controls the object up to what nothing else controls.
	Makers []object.ID
	// Trouble is what keeps a pod from being ready, and Source the source that the object is.
	Trouble *PodTrouble
	Source  *Source
}

// top is the last of the makers.
func (s SeenObject) top() (object.ID, bool) {
	if len(s.Makers) == 0 {
		return object.ID{}, false
	}
	return s.Makers[len(s.Makers)-1], true
}

// ObjectAnswerOf makes the answer out of an object and the Kustomizations that could be read. complete is false when
// there may be others.
func ObjectAnswerOf(seen SeenObject, all []v1.Kustomization, sources []Source, complete bool, missing []string) ObjectAnswer {
	a := ObjectAnswer{
		Object:        ObjectRef{Group: seen.ID.Group, Kind: seen.ID.Kind, Namespace: seen.ID.Namespace, Name: seen.ID.Name},
		Exists:        seen.Exists,
		UsedBy:        seen.Users,
		UsersUnknown:  seen.UsersUnknown,
		MissingRights: missing,
		looked:        seen.Looked,
		Trouble:       seen.Trouble,
		Source:        seen.Source,
		FollowedBy:    followers(seen.Source, all),
	}
	for _, m := range seen.Makers {
		a.Makers = append(a.Makers, m.String())
	}
	if seen.Meta != nil {
		a.OwnerLabels = ownerLabels(seen.Meta)
		a.MadeBy = madeBy(seen)
	}
	owner := a.findOwner(all)
	if owner == nil && a.OwnerLabels == "" {
		if owner = ownerOfMaker(seen, all); owner != nil {
			k := KustomizationOf(owner, sources)
			a.Kustomization, a.Standing = &k, Made
			return a
		}
	}
	if owner != nil {
		k := KustomizationOf(owner, sources)
		a.Kustomization = &k
		a.Retained = retainedAs(owner, seen.ID)
	}
	a.Standing = a.standing(seen, owner, complete)
	return a
}

// ownerOfMaker is the Kustomization that has what made the object.
func ownerOfMaker(seen SeenObject, all []v1.Kustomization) *v1.Kustomization {
	top, ok := seen.top()
	if !ok {
		return nil
	}
	for i := range all {
		if inventory.Decode(all[i].Status.Inventory).Has(top) {
			return &all[i]
		}
	}
	return nil
}

// followers are the Kustomizations that follow a source.
func followers(s *Source, all []v1.Kustomization) []string {
	if s == nil {
		return nil
	}
	var keys []string
	for i := range all {
		if sourceKey(&all[i]) == s.key() {
			keys = append(keys, all[i].Namespace+"/"+all[i].Name)
		}
	}
	slices.Sort(keys)
	return keys
}

func ownerLabels(m metav1.Object) string {
	name, namespace := m.GetLabels()[v1.OwnerNameLabel], m.GetLabels()[v1.OwnerNamespaceLabel]
	if name == "" && namespace == "" {
		return ""
	}
	return namespace + "/" + name
}

func madeBy(seen SeenObject) string {
	for _, ref := range seen.Meta.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return object.ID{Kind: ref.Kind, Namespace: seen.ID.Namespace, Name: ref.Name}.String()
		}
	}
	return ""
}

// findOwner fills in the inventories that hold the object, and returns the Kustomization that the answer is about: the
// one that the labels name if it has it in its inventory, else another that does, else the one that the labels name.
func (a *ObjectAnswer) findOwner(all []v1.Kustomization) *v1.Kustomization {
	var labelled, holder *v1.Kustomization
	for i := range all {
		key := all[i].Namespace + "/" + all[i].Name
		if key == a.OwnerLabels {
			labelled = &all[i]
		}
		if !inventory.Decode(all[i].Status.Inventory).Has(a.Object.id()) {
			continue
		}
		a.Inventories = append(a.Inventories, key)
		if holder == nil || key == a.OwnerLabels {
			holder = &all[i]
		}
	}
	slices.Sort(a.Inventories)
	if holder != nil {
		return holder
	}
	return labelled
}

func (a *ObjectAnswer) standing(seen SeenObject, owner *v1.Kustomization, complete bool) Standing {
	if owner == nil {
		return a.standingAlone(complete && seen.Unread == "")
	}
	if a.Retained != nil {
		return Kept
	}
	key := owner.Namespace + "/" + owner.Name
	switch listed := slices.Contains(a.Inventories, key); {
	case listed && a.Exists && seen.Unread == "" && a.OwnerLabels != key:
		return Foreign
	case listed && a.isCut(owner):
		return Unclear
	case listed:
		return Wanted
	}
	return LeftBehind
}

// standingAlone is the standing of an object without a Kustomization; all is known, or not.
func (a *ObjectAnswer) standingAlone(known bool) Standing {
	switch {
	case !known:
		return Unclear
	case a.OwnerLabels != "":
		return LeftBehind
	}
	return Unmanaged
}

// isCut tells whether the list of kept objects is not whole.
func (a *ObjectAnswer) isCut(owner *v1.Kustomization) bool {
	r := owner.Status.Rollout
	return r != nil && int(r.RetainedCount) > len(r.Retained)
}

func retainedAs(ks *v1.Kustomization, id object.ID) *v1.RetainedObject {
	if ks.Status.Rollout == nil {
		return nil
	}
	for _, r := range ks.Status.Rollout.Retained {
		if r.ID == id.Inventory() {
			return &r
		}
	}
	return nil
}

// explanations say what each reason means, for someone who meets it for the first time.
var explanations = map[v1.RetentionReason]string{
	v1.RetainedAwaitingHealth:       "it left the source, and the revision without it is not healthy yet",
	v1.RetainedDependentsExist:      "its Kustomization is being deleted, and others that depend on that one are still there",
	v1.RetainedInUse:                "it left the source, and something that runs still refers to it",
	v1.RetainedPruneDisabled:        "it left the source, and its own metadata forbids to prune it",
	v1.RetainedPruneOff:             "it left the source, and spec.prune of its Kustomization is false",
	v1.RetainedAwaitingConfirmation: "its deletion waits for a person",
	v1.RetainedProtected:            "it left the source, and it is protected",
	v1.RetainedSuperseded:           "it left the source, but the source has a newer revision that may have it again",
	v1.RetainedUnverified:           "it left the source, but it, or what uses it, could not be read, and what is unknown is never deleted",
	v1.RetainedDeleteFailed:         "it left the source, and the API server refused to delete it",
	v1.RetainedTerminating:          "it is on its way out",
}

// sentence says in one line what the object is.
func (a ObjectAnswer) sentence() string {
	name := spaced(a.Object.id().String())
	key := ""
	if a.Kustomization != nil {
		key = a.Kustomization.Key()
	}
	switch a.Standing {
	case Kept:
		return fmt.Sprintf("%s is kept by Kustomization %s.", name, key)
	case Wanted:
		return fmt.Sprintf("%s is wanted by Kustomization %s.", name, key)
	case Foreign:
		return fmt.Sprintf("%s belongs to %s; Kustomization %s has it in its inventory, too, but never deletes what is not its own.",
			name, orElse(prefixed("Kustomization ", a.OwnerLabels), "no Kustomization"), key)
	case LeftBehind:
		return fmt.Sprintf("%s was left behind: its labels name Kustomization %s, %s.", name, a.OwnerLabels, a.leftWhy())
	case Made:
		return fmt.Sprintf("%s was made by %s, which Kustomization %s has.", name, spaced(a.Makers[len(a.Makers)-1]), key)
	case Unmanaged:
		return fmt.Sprintf("%s is not managed by any Kustomization: none applies, keeps or prunes it.", name)
	default:
		return fmt.Sprintf("%s: rights are missing to say who manages it.", name)
	}
}

func (a ObjectAnswer) leftWhy() string {
	if a.Kustomization == nil {
		return "which does not exist; nothing applies or prunes it"
	}
	return "which does not have it in its inventory; it neither keeps nor prunes it"
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// reasonText is the planner's reason, with what it means and what the planner added.
func reasonText(r *v1.RetainedObject) string {
	text := string(r.Reason)
	if e := explanations[r.Reason]; e != "" {
		text += ": " + e
	}
	if r.Message != "" {
		text += " (" + strings.ReplaceAll(r.Message, "\n", " ") + ")"
	}
	return text
}

// Concerns tells whether a Kustomization has to do with an object: by the labels of the object, or by its inventory.
func Concerns(ks *v1.Kustomization, seen SeenObject) bool {
	if seen.Meta != nil && ownerLabels(seen.Meta) == ks.Namespace+"/"+ks.Name {
		return true
	}
	if seen.Source != nil && sourceKey(ks) == seen.Source.key() {
		return true
	}
	in := inventory.Decode(ks.Status.Inventory)
	top, made := seen.top()
	return in.Has(seen.ID) || made && in.Has(top)
}
