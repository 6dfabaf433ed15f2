package inventory_test

import (
	"slices"
	"testing"

	fluxv1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

func entry(name, version string) inventory.Entry {
	return inventory.Entry{ID: object.ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}, Version: version}
}

func refs(pairs ...string) *fluxv1.ResourceInventory {
	in := &fluxv1.ResourceInventory{Entries: []fluxv1.ResourceRef{}}
	for i := 0; i < len(pairs); i += 2 {
		in.Entries = append(in.Entries, fluxv1.ResourceRef{ID: pairs[i], Version: pairs[i+1]})
	}
	return in
}

func TestDecodeAndEncode(t *testing.T) {
	tests := map[string]struct {
		in, want   *fluxv1.ResourceInventory
		wantLen    int
		wantUnread []string
	}{
		"none":  {in: nil, want: refs(), wantUnread: []string{}},
		"empty": {in: refs(), want: refs(), wantUnread: []string{}},
		"as Flux writes it": {
			in:      refs("_shop__Namespace", "v1", "shop_web_apps_Deployment", "v1", "_a__b_rbac.authorization.k8s.io_ClusterRole", "v1"),
			want:    refs("_shop__Namespace", "v1", "shop_web_apps_Deployment", "v1", "_a__b_rbac.authorization.k8s.io_ClusterRole", "v1"),
			wantLen: 3, wantUnread: []string{}},
		"what can't be read is kept": {
			in:      refs("what is this", "v9", "_shop__Namespace", "v1"),
			want:    refs("_shop__Namespace", "v1", "what is this", "v9"),
			wantLen: 1, wantUnread: []string{"what is this"}},
		"twice": {in: refs("_shop__Namespace", "v1", "_shop__Namespace", "v2"), want: refs("_shop__Namespace", "v2"), wantLen: 1, wantUnread: []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.Decode(tt.in)
			if diff := cmp.Diff(tt.want, inv.Encode()); diff != "" {
				t.Error(diff)
			}
			if inv.Len() != tt.wantLen {
				t.Errorf("%d entries, want %d", inv.Len(), tt.wantLen)
			}
			if diff := cmp.Diff(tt.wantUnread, inv.Unread()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// P98: stale is what was there and is not wanted any more; another version of the same is not.
func TestRecord(t *testing.T) {
	a, b, c := entry("a", "v1"), entry("b", "v1"), entry("c", "v1")
	newer := entry("a", "v2")
	before := inventory.Decode(refs("???", "v1"))
	before = before.Record([]inventory.Entry{a, b})
	after := before.Record([]inventory.Entry{c, newer})
	if diff := cmp.Diff([]inventory.Entry{c, newer, b}, after.Entries()); diff != "" {
		t.Error("the wanted ones in their order, then the others:", diff)
	}
	if diff := cmp.Diff([]inventory.Entry{b}, after.Stale(object.NewSet(c.ID, newer.ID))); diff != "" {
		t.Error("stale:", diff)
	}
	if got := after.Without(object.NewSet(b.ID, c.ID)); !slices.Equal(got.Entries(), []inventory.Entry{newer}) || !slices.Equal(got.Unread(), []string{"???"}) {
		t.Errorf("without: %v, %v", got.Entries(), got.Unread())
	}
	if diff := cmp.Diff([]inventory.Entry{a, b}, before.Entries()); diff != "" {
		t.Error("the one before was changed:", diff)
	}
}

func TestEqual(t *testing.T) {
	a, b := entry("a", "v1"), entry("b", "v1")
	same := inventory.Of(a, b)
	for name, other := range map[string]inventory.Inventory{
		"order": inventory.Of(b, a), "fewer": inventory.Of(a), "version": inventory.Of(entry("a", "v2"), b),
		"unread": inventory.Decode(refs("???", "")).Record([]inventory.Entry{a, b}),
	} {
		if same.Equal(other) || other.Equal(same) {
			t.Errorf("%s makes no difference", name)
		}
	}
	if !same.Equal(inventory.Of(a, b)) {
		t.Error("differs from its equal")
	}
}

// Two spellings of one identity become one entry, the later one, in the place of the first. What can't be read has no identity.
func TestCanonical(t *testing.T) {
	spelled := func(namespace, name, version string) inventory.Entry {
		return inventory.Entry{ID: object.ID{Kind: "Namespace", Namespace: namespace, Name: name}, Version: version}
	}
	inv := inventory.Decode(refs("???", "v1")).Record([]inventory.Entry{spelled("shop", "a", "v1"), spelled("", "b", "v1"), spelled("", "a", "v2")})
	got := inv.Canonical(func(id object.ID) object.ID { id.Namespace = ""; return id })
	if want := []inventory.Entry{spelled("", "a", "v2"), spelled("", "b", "v1")}; !slices.Equal(got.Entries(), want) {
		t.Errorf("%v, want %v", got.Entries(), want)
	}
	if !got.Has(spelled("", "a", "").ID) || got.Has(spelled("shop", "a", "").ID) || !slices.Equal(got.Unread(), []string{"???"}) {
		t.Errorf("%v, unread %v", got.Entries(), got.Unread())
	}
	if inv.Len() != 3 {
		t.Errorf("the one before was changed: %v", inv.Entries())
	}
}

func TestEntryOf(t *testing.T) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	u.SetNamespace("shop")
	u.SetName("a")
	if got := inventory.EntryOf(u); got != entry("a", "v1") {
		t.Errorf("%+v", got)
	}
}

func drawEntries(t *rapid.T, what string) []inventory.Entry {
	one := rapid.Custom(func(t *rapid.T) inventory.Entry {
		return entry(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version"))
	})
	return rapid.SliceOfN(one, 0, 6).Draw(t, what)
}

func setOf(entries []inventory.Entry) object.Set {
	s := object.Set{}
	for _, e := range entries {
		s[e.ID] = struct{}{}
	}
	return s
}

func TestInventoryProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := inventory.Of()
		if rapid.Bool().Draw(t, "with one that can't be read") {
			start = inventory.Decode(refs("???", ""))
		}
		old, desired := drawEntries(t, "old"), drawEntries(t, "desired")
		inv := start.Record(old)
		recorded := inv.Record(desired)
		want, union := setOf(desired), setOf(append(slices.Clone(old), desired...))
		if got := setOf(recorded.Entries()); !cmp.Equal(got, union) || recorded.Len() != len(union) {
			t.Fatalf("recorded %v, want %v", got, union)
		}
		if !recorded.Record(desired).Equal(recorded) {
			t.Fatal("recording twice changes something")
		}
		stale := setOf(recorded.Stale(want))
		for id := range union {
			if stale.Has(id) == want.Has(id) {
				t.Fatalf("%s is stale %t and wanted %t", id, stale.Has(id), want.Has(id))
			}
			if !recorded.Has(id) {
				t.Fatalf("%s is not in the inventory", id)
			}
		}
		gone := setOf(drawEntries(t, "gone"))
		left := recorded.Without(gone)
		for id := range union {
			if left.Has(id) == gone.Has(id) {
				t.Fatalf("%s is left %t and gone %t", id, left.Has(id), gone.Has(id))
			}
		}
		if !slices.Equal(left.Unread(), start.Unread()) {
			t.Fatal("what could not be read was forgotten")
		}
		if again := inventory.Decode(left.Encode()); !again.Equal(left) {
			t.Fatalf("%v is read back as %v", left.Entries(), again.Entries())
		}
		for _, e := range recorded.Entries() {
			if want.Has(e.ID) {
				last := slices.Clone(desired)
				slices.Reverse(last)
				if i := slices.IndexFunc(last, func(d inventory.Entry) bool { return d.ID == e.ID }); last[i].Version != e.Version {
					t.Fatalf("%s is recorded as %s", e.ID, e.Version)
				}
			}
		}
	})
}
