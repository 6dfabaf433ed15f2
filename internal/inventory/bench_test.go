package inventory_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// largest is an inventory of 10,000 objects with names of the usual length.
func largest() []inventory.Entry {
	entries := make([]inventory.Entry, 0, 10_000)
	for i := range 10_000 {
		e := entry(fmt.Sprintf("some-application-with-a-name-%d", i), "v1")
		e.ID.Namespace = fmt.Sprintf("namespace-of-a-team-%d", i%50)
		entries = append(entries, e)
	}
	return entries
}

func BenchmarkEncode(b *testing.B) {
	inv := inventory.Of(largest()...)
	b.ReportAllocs()
	for b.Loop() {
		inv.Encode()
	}
}

func BenchmarkDecode(b *testing.B) {
	stored := inventory.Of(largest()...).Encode()
	b.ReportAllocs()
	for b.Loop() {
		if inv := inventory.Decode(stored); inv.Len() != 10_000 {
			b.Fatalf("%d entries", inv.Len())
		}
	}
}

// BenchmarkRecord stores a build that has 9,000 objects of before and 1,000 new ones, finds what is stale, and lets go of it.
func BenchmarkRecord(b *testing.B) {
	entries := largest()
	before := inventory.Of(entries[:9_000]...)
	desired := entries[1_000:]
	want := make(object.Set, len(desired))
	for _, e := range desired {
		want[e.ID] = struct{}{}
	}
	b.ReportAllocs()
	for b.Loop() {
		recorded := before.Record(desired)
		gone := object.Set{}
		for _, e := range recorded.Stale(want) {
			gone[e.ID] = struct{}{}
		}
		if left := recorded.Without(gone); recorded.Len() != 10_000 || left.Len() != 9_000 {
			b.Fatalf("%d recorded, %d left", recorded.Len(), left.Len())
		}
	}
}
