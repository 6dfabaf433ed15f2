package kustomization

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"

	v1 "github.com/holdfast-gitops/holdfast/api/v1"
	"github.com/holdfast-gitops/holdfast/internal/inventory"
	"github.com/holdfast-gitops/holdfast/internal/object"
)

// longest is an inventory of ConfigMaps whose names and namespaces are as long as they can be.
func longest(n int) inventory.Inventory {
	var entries []inventory.Entry
	for i := range n {
		entries = append(entries, inventory.Entry{ID: object.ID{Kind: "ConfigMap", Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%063d", i)}, Version: "v1"})
	}
	return inventory.Of(entries...)
}

// C39: 12,000 ConfigMaps with names and namespaces of 63 characters don't fit into what an API server stores. They are refused before the
// first write, saying the limit, and what was recorded before stays. Nothing that is let pass is too large.
func TestC39Refused(t *testing.T) {
	p := &pass{Reconciler: &Reconciler{}, ks: newKustomization(), before: newKustomization(), mem: &memory{}, now: now}
	p.before.Status.Inventory = longest(3).Encode()
	p.inventory = longest(12000)
	out := p.checkSize()
	if out == nil || out.state != stateFailed || !strings.Contains(out.message, "the inventory of 12000 objects is too large to be stored") ||
		!strings.Contains(out.message, "takes 1839 KiB, and there is room for 1375 KiB") {
		t.Fatalf("the outcome is %+v", out)
	}
	if p.inventory.Len() != 3 {
		t.Errorf("%d objects are left in the inventory", p.inventory.Len())
	}
	most := sort.Search(12000, func(n int) bool {
		p.inventory = longest(n + 1)
		return p.checkSize() != nil
	})
	p.ks.Status.Inventory = longest(most).Encode()
	content, err := json.Marshal(p.ks)
	if err != nil || most < 8000 || len(content) > maxObject-reserved {
		t.Errorf("%d objects pass, which take %d of %d bytes (%v)", most, len(content), maxObject, err)
	}
}

// The warning comes once when the inventory takes more than 80% of the room, and goes with it.
func TestLargeInventory(t *testing.T) {
	p := &pass{Reconciler: &Reconciler{Options: Options{MaxObjectSize: reserved + 20_000}}, ks: newKustomization(), mem: &memory{}}
	for i, tt := range []struct {
		objects, events int
		warned          bool
	}{{50, 0, false}, {115, 1, true}, {116, 1, true}, {50, 1, false}, {116, 2, true}} {
		p.inventory = longest(tt.objects)
		p.reportSize()
		if warned := conditions.IsTrue(p.ks, v1.LargeInventoryCondition); warned != tt.warned || len(p.events) != tt.events {
			t.Errorf("step %d: warned %t, %d events", i, warned, len(p.events))
		}
	}
}
