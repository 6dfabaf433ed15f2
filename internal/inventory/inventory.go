// Package inventory keeps the record of what a Kustomization may have created.
//
// The record is Flux's status.inventory: the same ids and versions. It grows before the first write to the cluster (what
// is about to be created is in it) and shrinks only when an object is known to be gone or to belong to someone else.
// An object is stale when the inventory holds it and the build does not.
//
// It is pure: no client, clock or context. Whether a stale object may be deleted is decided in package plan.
package inventory

import (
	"slices"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-gitops/holdfast/internal/object"
)

// Entry is an object and the API version it was last applied with.
type Entry struct {
	ID      object.ID
	Version string
}

// EntryOf returns the entry of an object that is about to be applied.
func EntryOf(u *unstructured.Unstructured) Entry {
	return Entry{ID: object.IDOf(u), Version: u.GroupVersionKind().Version}
}

// Inventory is a list of entries without duplicates, in the order in which they were applied.
type Inventory struct {
	entries []Entry
	index   map[object.ID]int
	// unread holds refs whose id could not be read. They are carried along, never acted on: what can't be
	// understood must not be forgotten.
	unread []fluxv1.ResourceRef
}

// Of returns an inventory of the entries; of two with one identity the later version wins.
func Of(entries ...Entry) Inventory {
	inv := Inventory{index: make(map[object.ID]int, len(entries))}
	for _, e := range entries {
		if i, ok := inv.index[e.ID]; ok {
			inv.entries[i] = e
			continue
		}
		inv.index[e.ID] = len(inv.entries)
		inv.entries = append(inv.entries, e)
	}
	return inv
}

// Decode reads the inventory of a status. Nil is an empty one.
func Decode(in *fluxv1.ResourceInventory) Inventory {
	if in == nil {
		return Of()
	}
	var entries []Entry
	var unread []fluxv1.ResourceRef
	for _, ref := range in.Entries {
		id, err := object.ParseInventory(ref.ID)
		if err != nil {
			unread = append(unread, ref)
			continue
		}
		entries = append(entries, Entry{ID: id, Version: ref.Version})
	}
	inv := Of(entries...)
	inv.unread = unread
	return inv
}

// Encode writes the inventory in the form of a status.
func (inv Inventory) Encode() *fluxv1.ResourceInventory {
	out := &fluxv1.ResourceInventory{Entries: make([]fluxv1.ResourceRef, 0, inv.Len()+len(inv.unread))}
	for _, e := range inv.entries {
		out.Entries = append(out.Entries, fluxv1.ResourceRef{ID: e.ID.Inventory(), Version: e.Version})
	}
	out.Entries = append(out.Entries, inv.unread...)
	return out
}

// Len is the number of entries that can be acted on.
func (inv Inventory) Len() int { return len(inv.entries) }

// Unread returns the ids that could not be read.
func (inv Inventory) Unread() []string {
	ids := make([]string, 0, len(inv.unread))
	for _, ref := range inv.unread {
		ids = append(ids, ref.ID)
	}
	return ids
}

// Entries returns a copy of the entries.
func (inv Inventory) Entries() []Entry { return slices.Clone(inv.entries) }

// Has tells whether the inventory holds the object.
func (inv Inventory) Has(id object.ID) bool {
	_, ok := inv.index[id]
	return ok
}

// Record returns the union of the desired entries, in their order, and what the inventory held before. It is what must be
// stored before the first write to the cluster.
func (inv Inventory) Record(desired []Entry) Inventory {
	want := Of(desired...)
	merged := want.Entries()
	for _, e := range inv.entries {
		if !want.Has(e.ID) {
			merged = append(merged, e)
		}
	}
	out := Of(merged...)
	out.unread = inv.unread
	return out
}

// Stale returns the entries that are in the inventory and not wanted. A change of version alone makes nothing stale.
func (inv Inventory) Stale(desired object.Set) []Entry {
	var stale []Entry
	for _, e := range inv.entries {
		if !desired.Has(e.ID) {
			stale = append(stale, e)
		}
	}
	return stale
}

// Canonical returns the inventory with every identity replaced by what the function makes of it.
func (inv Inventory) Canonical(canonical func(object.ID) object.ID) Inventory {
	entries := inv.Entries()
	for i := range entries {
		entries[i].ID = canonical(entries[i].ID)
	}
	out := Of(entries...)
	out.unread = inv.unread
	return out
}

// Without returns the inventory less the given objects.
func (inv Inventory) Without(gone object.Set) Inventory {
	out := Of(slices.DeleteFunc(inv.Entries(), func(e Entry) bool { return gone.Has(e.ID) })...)
	out.unread = inv.unread
	return out
}

// Equal tells whether two inventories would be stored alike.
func (inv Inventory) Equal(other Inventory) bool {
	return slices.Equal(inv.entries, other.entries) && slices.Equal(inv.unread, other.unread)
}
