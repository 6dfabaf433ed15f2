package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/object"
	"github.com/holdfast-gitops/holdfast/internal/policy"
	"github.com/holdfast-gitops/holdfast/internal/usage"
)

// A confirmation names objects, not a number: what a person was shown is in the status, each object with its UID, and
// the digest over that list is what the person repeats. Whatever is not in the list stays unconfirmed, however it came about:
// a later revision, an object made anew under the same name, or one more that left the source.

// Confirmed returns the UIDs of the objects whose deletion a person allowed: those that the status remembers as confirmed,
// and those that it shows as waiting, if the annotation repeats the digest of exactly these.
func Confirmed(was []v1.RetainedObject, annotation string) map[object.ID]string {
	matches := annotation != "" && annotation == Digest(was)
	out := map[object.ID]string{}
	for _, r := range was {
		id, err := object.ParseInventory(r.ID)
		if err == nil && r.UID != "" && (r.Confirmed || matches && isPending(r)) {
			out[id] = r.UID
		}
	}
	return out
}

// isPending tells whether a person is asked about the object.
func isPending(r v1.RetainedObject) bool {
	return r.Reason == v1.RetainedAwaitingConfirmation && r.UID != "" && !r.Confirmed
}

// Pending returns the retained objects that a person is asked about.
func Pending(retained []v1.RetainedObject) []v1.RetainedObject {
	var out []v1.RetainedObject
	for _, r := range retained {
		if isPending(r) {
			out = append(out, r)
		}
	}
	return out
}

// Lingering returns the objects that the status shows as kept for their users or for the history.
func Lingering(was []v1.RetainedObject) object.Set {
	out := object.Set{}
	for _, r := range was {
		id, err := object.ParseInventory(r.ID)
		if err == nil && (r.Reason == v1.RetainedInUse || r.Reason == v1.RetainedRevisionHistory) {
			out[id] = struct{}{}
		}
	}
	return out
}

// digestLength is the length of the part of a digest that is shown and compared.
const digestLength = 16

// Digest stands for the set of objects that a person is asked about, by id, UID and the time since when each is kept, in any
// order; empty for none. The time makes a confirmation good for one time only: what returned to the source and leaves it again
// is asked about again.
func Digest(retained []v1.RetainedObject) string {
	var lines []string
	for _, r := range Pending(retained) {
		lines = append(lines, fmt.Sprintf("%s %s %d\n", r.ID, r.UID, sinceOf(r)))
	}
	return digestOf(lines)
}

// sinceOf is the time since when an object is kept, as it goes into a digest.
func sinceOf(r v1.RetainedObject) int64 {
	if r.Since == nil {
		return 0
	}
	return r.Since.Unix()
}

// digestOf stands for lines in any order; empty for none.
func digestOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])[:digestLength]
}

// allowed tells whether a person allowed the deletion of the very object that was seen.
func allowed(s Stale) bool { return s.Confirmed != "" && s.Confirmed == s.Seen.UID }

// mass is the prune that a revision asks for, as far as it counts against maxPrune.
type mass struct {
	objects object.Set
	// of is the size of the inventory, and most what goes without a word.
	of, most int
	limited  bool
}

// isLarge tells whether it needs a word.
func (m mass) isLarge() bool { return m.limited && len(m.objects) > m.most }

// newMass counts what would go if nothing but users, order and a word held it. Users don't count as holding, since those
// of a directory that is removed go with it.
func newMass(v view) mass {
	m := mass{objects: object.Set{}, of: len(v.Build.Desired) + len(v.Stale)}
	m.most, m.limited = v.Policy.Max.Of(m.of)
	if !m.limited || v.Finalizing {
		m.limited = false
		return m
	}
	for _, s := range v.Stale {
		if v.counts(s) {
			m.objects[s.ID] = struct{}{}
		}
	}
	return m
}

// counts tells whether the deletion of an object counts against maxPrune. Generated config that was renamed does not: every
// edit leaves one behind. What stayed for its users when its own revision was pruned does not either, nor what is confirmed.
// What could not be read counts: a read that fails must not make a large prune look small.
func (v view) counts(s Stale) bool {
	if s.Seen.Presence == Unknown {
		s.Seen = Observation{}
	}
	if s.Lingering || allowed(s) || isRenamed(s.ID) || dropped(v.Facts, s) != nil {
		return false
	}
	return firstHold(beforeLook, v, s) == nil && firstHold(ofItself, v, s) == nil
}

func isRenamed(id object.ID) bool {
	return id.Group == "" && (id.Kind == "ConfigMap" || id.Kind == "Secret") && usage.HasHashSuffix(id.Name)
}

// unallowed: a deletion that was marked, or that is part of a large one, needs a word from a person.
func unallowed(v view, s Stale) *Hold {
	hold := &Hold{Reason: v1.RetainedAwaitingConfirmation, Until: untilConfirmed}
	switch when := v.when(s); {
	case allowed(s):
		return nil
	case v.demands(s).word && !policy.IsWhen(when):
		hold.Message = fmt.Sprintf("%s is %q: want %s", v1.AnnotationPrune, when, policy.Whens())
	case v.demands(s).word:
		hold.Message = "its deletion is to be confirmed (" + v1.AnnotationPrune + ": Confirm, or a rule)"
	case v.mass.isLarge() && v.mass.objects.Has(s.ID):
		hold.Message = fmt.Sprintf("part of a prune of %d of %d objects; maxPrune is %s", len(v.mass.objects), v.mass.of, v.Policy.Max)
	default:
		return nil
	}
	return hold
}

const untilConfirmed = "its deletion is confirmed"

// revisionHistory: what a workload can be rolled back to needs its config as much as what runs.
func revisionHistory(v view, s Stale) *Hold {
	if !v.demands(s).forgotten || len(s.Use.Past) == 0 {
		return nil
	}
	return &Hold{Reason: v1.RetainedRevisionHistory, Users: slices.Sorted(slices.Values(s.Use.Past)),
		Until: "no ReplicaSet or ControllerRevision in the history refers to it"}
}
